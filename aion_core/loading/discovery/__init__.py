"""Discovery of the agents of a folder or a file. No code of theirs is imported."""
