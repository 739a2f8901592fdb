"""SQLite adapters for `aion dev`: its table, blobs and queues in files on this machine."""
