"""The process around turns: its deadline, background turns, and guards around agents' code."""
