"""Table: its port, the meaning of conditions and changes, keys, items, retries and times. No other package knows a key."""
