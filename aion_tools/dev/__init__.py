"""Development server with a supervisor process, a worker process for the agents, and an AWS emulator process."""
