"""Adapters in memory: a table, blobs, queues and a cipher for tests, the simulation and `--store memory`."""
