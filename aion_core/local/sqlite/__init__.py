"""Adapters in SQLite files: table, blobs and queues, for `aion dev`."""
