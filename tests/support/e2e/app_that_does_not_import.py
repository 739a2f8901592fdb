"""Module with a failing import."""

raise RuntimeError("no such model")
