"""Schema of the DynamoDB table and folders of the S3 bucket, as in template.yaml.

The template's policy checks (scripts/policies) compare the template with this schema.
"""

from aion_core.table.item import Index

TTL_ATTRIBUTE = "expires"
"""The TTL attribute, in seconds; DynamoDB deletes expired items late."""
VERSION_ATTRIBUTE = "v"
"""The attribute of each item with the `VERSION` that wrote it."""
OWNER_ATTRIBUTE = "owner"
"""The attribute of each item with the tag of its owner (`keys.owner_tag`). The deployment's own items lack it."""
STATE = "state"

ITEMS = Index(name="", partition="pk", sort="sk")

TIMERS = Index(name="due", partition="due_shard", sort="due_at", sort_type="N")
"""Index of timers, by time: an item is listed while it has work that the sweep must start at that time."""

BY_AGENT = Index(name="by_agent", partition="listing_agent", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""Index of an owner's tasks with an agent, by the time of their status. Other partitions list sessions and API keys."""

BY_CONTEXT = Index(name="by_context", partition="listing_context", sort="listing_at", copied=(STATE, TTL_ATTRIBUTE))
"""Index of the tasks of one context, by the time of their status."""

INDEXES = (TIMERS, BY_AGENT, BY_CONTEXT)

TASKS = "tasks"
THREADS = "threads"
ARTIFACTS = "artifacts"
SESSIONS = "sessions"
PERMANENT_FOLDER = "permanent"
"""Folder of objects without a TTL, stored for users and apps."""

RETENTIONS = {TASKS: 1.0, THREADS: 1.0, ARTIFACTS: 1.0, SESSIONS: 1.5}
"""Lifetime of each folder's objects, as a multiple of the retention. Other folders have no lifecycle rule."""

VERSION = 5
"""Version of the stored layout: the keys and attributes of items, and the files of `aion dev`.

Increase it when one of them changes. Stored data of another version is refused (docs/decisions/0044).
"""
