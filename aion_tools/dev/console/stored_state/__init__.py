"""Stored state of an agent's contexts, as plain JSON for the console."""
