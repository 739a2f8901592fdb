"""In-memory adapters for tests, the simulation and `aion dev --store memory`: table, blobs, queues and cipher."""
