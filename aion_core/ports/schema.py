"""Schema of the table and folders of the bucket, as in template.yaml.

The template's policy checks (infra) parse this file and do not run it: its values are literals.
"""

from aion_core.ports.table import Index

TTL_ATTRIBUTE = "expires"
"""The TTL attribute, in seconds; DynamoDB deletes expired items late."""
STATE = "state"

ITEMS = Index(name="", partition="pk", sort="sk")

TIMERS = Index(name="due", partition="due_shard", sort="due_at", sort_type="N")
"""Timers: contexts, events and push configs to wake at a time, unless their work is done before."""

BY_AGENT = Index(name="by_agent", partition="listing_agent", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""An owner's tasks with an agent by the time of their status; sessions and API keys in partitions of their own."""

BY_CONTEXT = Index(name="by_context", partition="listing_context", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""Tasks of a context by the time of their status."""

INDEXES = (TIMERS, BY_AGENT, BY_CONTEXT)

TASKS = "tasks"
THREADS = "threads"
ARTIFACTS = "artifacts"
SESSIONS = "sessions"
PERMANENT_FOLDER = "kept"
"""Folder of the objects of users and apps, without a TTL."""

RETENTIONS = {TASKS: 1.0, THREADS: 1.0, ARTIFACTS: 1.0, SESSIONS: 1.5}
"""Retentions during which an item may refer to an object of the folder; other folders have no lifecycle rule."""
