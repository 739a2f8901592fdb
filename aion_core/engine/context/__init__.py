"""A context (conversation): its lease, running turn and waiting turns."""
