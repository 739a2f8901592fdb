"""Stores of tasks, contexts, push configs, checkpoints, sessions and limits, over the table port."""
