"""Stores of tasks, contexts, push configs, sessions and limits: written once, over the table port."""
