"""Development server: an emulator and a worker in processes of their own, under a supervisor that reloads the worker."""
