"""Development server: a supervisor process, a worker process for the agents, and a process for the emulated AWS."""
