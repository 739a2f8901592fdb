"""Errors raised while an agent is loaded: the line in the author's files, and the remedy."""
