"""Adapters over one SQLite file: what `aion dev` stores on this machine."""
