"""List of all kinds of partitions in the table and of folders in the bucket that hold owners' data. Pure.

Add new kinds of partitions and folders here: `aion data delete` does not report success if the table has a partition of
an unknown kind.
"""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import unquote

from msgspec import Struct

from aion_core.table import keys
from aion_core.table.item import Item, Key, key_of
from aion_core.table.keys import ContextKey
from aion_core.table.schema import ARTIFACTS, PERMANENT_FOLDER, SESSIONS, TASKS, THREADS


class NamedBy(StrEnum):
    """Part of a partition's key or an object's name that identifies the owner of the data."""

    OWNER = "owner"
    """Owner's name, escaped."""
    THREAD = "thread"
    """Hash of an owner, an agent and a context id (LangGraph's thread_id)."""
    SESSION = "session"
    """Hash of an owner, an app and a session id."""
    USER = "user"
    """Hash of an owner and an app."""
    API_KEY = "api-key"
    """Id of an API key. The key's item contains its principal."""
    NOBODY = "nobody"
    """No owner, since the data belongs to the deployment or to all users of an app."""


class Partitions(Struct, frozen=True):
    """A kind of partition in the table, identified by the prefix of its key."""

    prefix: str
    named_by: NamedBy
    stores: Mapping[str, str]
    """Names of stores in reports, by a pattern of the sort key. The first matching pattern counts."""

    def store_of(self, sort: str) -> str:
        """Return the store's name in reports for an item with this sort key."""
        return next(store for pattern, store in self.stores.items() if fnmatchcase(sort, pattern))


class Folder(Struct, frozen=True):
    """A kind of object in the bucket, identified by the prefix of its name. The prefix ends with a slash."""

    prefix: str
    named_by: NamedBy
    store: str


API_KEYS = "API keys"

PARTITIONS = (
    Partitions(
        keys.TASKS,
        NamedBy.OWNER,
        {
            "EVENT#*#SNAP": "task snapshots",
            "EVENT#*": "task events",
            "QUEUED#*": "queued messages",
            "PUSH#*": "push configs",
            "CALL#*": "remote calls",
            "*": "tasks",
        },
    ),
    Partitions("DELTA#", NamedBy.OWNER, {"*": "stream deltas"}),
    Partitions("CONTEXT#", NamedBy.OWNER, {"*": "contexts"}),
    Partitions("MESSAGE#", NamedBy.OWNER, {"*": "message ids"}),
    Partitions("LIMIT#", NamedBy.OWNER, {"*": "rate limits"}),
    Partitions("THREAD#", NamedBy.THREAD, {"*": "checkpoints"}),
    Partitions("SESSION#", NamedBy.SESSION, {"EVENT#*": "session events", "STATE": "session state", "*": "sessions"}),
    Partitions("USER#", NamedBy.USER, {"*": "user state"}),
    Partitions("MEMORY#", NamedBy.OWNER, {"*": "long-term memory"}),
    Partitions("API-KEY#", NamedBy.API_KEY, {"*": API_KEYS}),
    Partitions("APP#", NamedBy.NOBODY, {"*": "app state"}),
    Partitions("SECRET#", NamedBy.NOBODY, {"*": "secrets"}),
)

FOLDERS = (
    Folder(f"{TASKS}/", NamedBy.OWNER, "task payloads"),
    Folder(f"{THREADS}/", NamedBy.THREAD, "checkpoint payloads"),
    Folder(f"{SESSIONS}/", NamedBy.SESSION, "session payloads"),
    Folder(f"{ARTIFACTS}/", NamedBy.SESSION, "artifacts"),
    Folder(f"{PERMANENT_FOLDER}/{ARTIFACTS}/", NamedBy.USER, "user artifacts"),
    Folder(f"{PERMANENT_FOLDER}/state/", NamedBy.USER, "user state payloads"),
)

STORES = (*dict.fromkeys(store for each in PARTITIONS for store in each.stores.values()), *(f.store for f in FOLDERS))
"""Names of all stores, in the order of a report."""


def partitions_of(partition: str) -> Partitions | None:
    """Return the kind of the partition with this key, or None if its prefix is unknown."""
    return next((each for each in PARTITIONS if partition.startswith(each.prefix)), None)


def owner_of(partition: str) -> str:
    """Parse the owner's name from a partition's key that contains it."""
    return unquote(partition.split("#")[1])


def id_of(partition: str) -> str:
    """Return a partition's key without its prefix, such as the hash of a thread."""
    return partition.partition("#")[2]


def context_of(item: Item) -> ContextKey | None:
    """Return the context named in an item of an owner's partition, or None if the item names no context.

    Contexts, message ids, idempotency keys and task heads name their context.
    """
    key = key_of(item)
    if key.partition.startswith(("CONTEXT#", "MESSAGE#")):
        return keys.context_of(key)
    if key.partition.startswith(keys.TASKS) and key.sort == keys.HEAD:
        return ContextKey(keys.task_of(key).owner, item["agent"], item["context_id"])
    return None


def rank_of(key: Key) -> int:
    """Return an item's rank in the order of deletion, lowest first.

    Contexts, heads and message ids come last: a repeated deletion needs them to find partitions named by a hash.
    """
    if key.partition.startswith("CONTEXT#"):
        return 2
    is_head = key.sort == keys.HEAD and key.partition.startswith((keys.TASKS, "SESSION#"))
    return 1 if is_head or key.partition.startswith("MESSAGE#") else 0
