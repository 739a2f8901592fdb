"""What aion does with a task: creates it, runs it, keeps its log, reads it out."""
