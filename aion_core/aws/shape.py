"""What template.yaml makes for this code: the keys and the indexes of the table, the folders of the bucket.

The gate on the template (infra/gates) reads this file, and runs none of it: each value is written out.
"""

from typing import NamedTuple

ENDS = "expires"
"""The attribute by which an item ends, in seconds; DynamoDB deletes it late."""
STATE = "state"


class Index(NamedTuple):
    """An index of the table, or without a name the table itself."""

    name: str
    partition: str
    sort: str
    sort_type: str = "S"
    copied: tuple[str, ...] = ()
    """What an entry has to hold beside its keys: what queries filter by."""


ITEMS = Index(name="", partition="pk", sort="sk")

DUE = Index(name="due", partition="due_shard", sort="due_at", sort_type="N")
"""What was promised and has not happened yet."""

BY_AGENT = Index(name="by_agent", partition="listing_agent", sort="listing_at", copied=(STATE, ENDS))
"""An owner's tasks with an agent, by the time of their status; and, apart from these, sessions and API keys."""

BY_CONTEXT = Index(name="by_context", partition="listing_context", sort="listing_at", copied=(STATE, ENDS))
"""The tasks of one context, by the time of their status."""

TASKS = "tasks"
THREADS = "threads"
ARTIFACTS = "artifacts"
SESSIONS = "sessions"
KEPT = "kept"
"""What is a user's or an app's, and ends when it is deleted."""

RETENTIONS = {TASKS: 1.0, THREADS: 1.0, ARTIFACTS: 1.0, SESSIONS: 1.5}
"""How many retentions long an object of a folder may be named by a row; what is in none of these has no end."""
