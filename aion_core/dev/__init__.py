"""Development server with a supervisor process, a worker process for the agents, and one for the emulated AWS."""
