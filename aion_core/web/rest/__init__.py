"""HTTP+JSON binding (A2A 11)."""
