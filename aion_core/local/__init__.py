"""Adapters for one machine: in memory, and in SQLite files."""
