"""Adapters in memory: table, blobs, queues and cipher."""
