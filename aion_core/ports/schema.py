"""Schema of the table and folders of the bucket, the same as in template.yaml.

The template's policy checks (infra/policies) compare the template with it.
"""

from aion_core.ports.table import Index

TTL_ATTRIBUTE = "expires"
"""The TTL attribute, in seconds; DynamoDB deletes expired items late."""
STATE = "state"

ITEMS = Index(name="", partition="pk", sort="sk")

TIMERS = Index(name="due", partition="due_shard", sort="due_at", sort_type="N")
"""Timers: items to wake at a time, unless they were handled before."""

BY_AGENT = Index(name="by_agent", partition="listing_agent", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""An owner's tasks with an agent, by the time of their status; other partitions list sessions and API keys."""

BY_CONTEXT = Index(name="by_context", partition="listing_context", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""The tasks of one context, by the time of their status."""

INDEXES = (TIMERS, BY_AGENT, BY_CONTEXT)

TASKS = "tasks"
THREADS = "threads"
ARTIFACTS = "artifacts"
SESSIONS = "sessions"
PERMANENT_FOLDER = "kept"
"""Folder of users' and apps' objects without a TTL."""

RETENTIONS = {TASKS: 1.0, THREADS: 1.0, ARTIFACTS: 1.0, SESSIONS: 1.5}
"""Lifetime of a folder's objects, in retentions; other folders have no lifecycle rule."""
