"""Lists: tasks by filter, conversations of a context, and page tokens."""
