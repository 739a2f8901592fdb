"""A task: its states, its head, its event log, and the task as the fold of this log."""
