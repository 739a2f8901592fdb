"""Names of the kinds of owners' data in reports. Pure."""

from collections.abc import Mapping

from aion_core.table.schema import ARTIFACTS, PERMANENT_FOLDER, SESSIONS, TASKS, THREADS

API_KEYS = "API keys"

ITEMS: Mapping[str, str] = {
    "TASK#": "tasks",
    "DELTA#": "stream deltas",
    "TRACE#": "traces",
    "CALLBACK#": "callback tokens",
    "CONTEXT#": "contexts",
    "MESSAGE#": "message ids",
    "LIMIT#": "rate limits",
    "THREAD#": "checkpoints",
    "SESSION#": "sessions",
    "USER#": "user state",
    "MEMORY#": "long-term memory",
    "API-KEY#": API_KEYS,
}
"""Names of the owners' items by the prefix of their partition. An item with another prefix is named by it."""

OF_THE_DEPLOYMENT = ("APP#", "SECRET#")
"""Prefixes of the partitions that belong to no owner."""

OBJECTS: Mapping[str, str] = {
    TASKS: "task payloads",
    THREADS: "checkpoint payloads",
    SESSIONS: "session payloads",
    ARTIFACTS: "artifacts",
    PERMANENT_FOLDER: "user state and artifacts",
}
"""Names of the objects by their folder in the bucket."""


def prefix_of(partition: str) -> str:
    """Return the prefix of a partition's key, such as `TASK#`."""
    return partition.partition("#")[0] + "#"
