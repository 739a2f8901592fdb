"""The schema of the one table and the folders of the bucket, as template.yaml makes them.

The template's policy checks (infra/gates) read this file and run none of it: each value is written out.
"""

from aion_core.ports.table import Index

TTL_ATTRIBUTE = "expires"
"""The TTL attribute, in seconds; DynamoDB deletes expired items late."""
STATE = "state"

ITEMS = Index(name="", partition="pk", sort="sk")

TIMERS = Index(name="due", partition="due_shard", sort="due_at", sort_type="N")
"""Timers: work that is to be woken at a time if it has not been done by then."""

BY_AGENT = Index(name="by_agent", partition="listing_agent", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""An owner's tasks with an agent by the time of their status; in partitions of their own, sessions and API keys."""

BY_CONTEXT = Index(name="by_context", partition="listing_context", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""The tasks of one context, by the time of their status."""

TASKS = "tasks"
THREADS = "threads"
ARTIFACTS = "artifacts"
SESSIONS = "sessions"
PERMANENT_FOLDER = "kept"
"""The folder of users' and apps' objects, which have no TTL."""

RETENTIONS = {TASKS: 1.0, THREADS: 1.0, ARTIFACTS: 1.0, SESSIONS: 1.5}
"""For how many retentions an item may refer to an object of the folder; other folders have no lifecycle rule."""
