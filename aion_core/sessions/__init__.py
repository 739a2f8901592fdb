"""ADK's sessions and artifacts: what its services promise, whatever keeps their records."""
