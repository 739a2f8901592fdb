"""Inventory of owners' data: every kind of partition in the table and of folder in the bucket. Pure.

Add new partitions and folders here: `aion data delete` does not report success while the table has a partition of an
unknown kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import unquote

from aion_core.ports import ContextKey
from aion_core.ports.schema import ARTIFACTS, PERMANENT_FOLDER, SESSIONS, TASKS, THREADS
from aion_core.ports.table import Item, Key
from aion_core.stores import keys


class NamedBy(StrEnum):
    """Part of a partition's key or an object's name that identifies the owner."""

    OWNER = "owner"
    """Owner, quoted."""
    THREAD = "thread"
    """Hash of an owner, an agent and a context."""
    SESSION = "session"
    """Hash of an owner, an app and a session."""
    USER = "user"
    """Hash of an owner and an app."""
    API_KEY = "api-key"
    """Id of an API key; its item has the principal."""
    NOBODY = "nobody"
    """No owner: data of the deployment, or of all users of an app."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """Kind of partition, identified by the prefix of its key."""

    prefix: str
    named_by: NamedBy
    stores: Mapping[str, str]
    """Name of the store in reports by the pattern of the sort key; the first match counts."""

    def store_of(self, sort: str) -> str:
        """Return the store of the item with this sort key."""
        return next(store for pattern, store in self.stores.items() if fnmatchcase(sort, pattern))


@dataclass(frozen=True, slots=True)
class Folder:
    """Kind of object, identified by the prefix of its name, with a slash at the end."""

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
            "ASKED#*": "waiting messages",
            "PUSH#*": "push configs",
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
"""All stores, in the order of a report."""


def partitions_of(partition: str) -> Partitions | None:
    """Return the kind of the partition with this key, None for an unknown kind."""
    return next((each for each in PARTITIONS if partition.startswith(each.prefix)), None)


def owner_of(partition: str) -> str:
    """Return the owner in the key of a partition named by its owner."""
    return unquote(partition.split("#")[1])


def id_of(partition: str) -> str:
    """Return the rest of a partition's key after its prefix, such as the hash of a thread."""
    return partition.partition("#")[2]


def context_of(item: Item) -> ContextKey | None:
    """Return the context of an item in an owner's partition, None if the item does not contain it.

    Contexts, message ids, idempotency keys and task heads contain it.
    """
    key = keys.key_of(item)
    if key.partition.startswith(("CONTEXT#", "MESSAGE#")):
        return keys.context_of(key)
    if key.partition.startswith(keys.TASKS) and key.sort == keys.HEAD:
        return ContextKey(keys.task_of(key).owner, item["agent"], item["context_id"])
    return None


def rank_of(key: Key) -> int:
    """Return the rank of an item in a deletion, lowest first.

    Items that identify hashed partitions come last, so that a repeated deletion finds the rest.
    """
    if key.partition.startswith("CONTEXT#"):
        return 2
    is_head = key.sort == keys.HEAD and key.partition.startswith((keys.TASKS, "SESSION#"))
    return 1 if is_head or key.partition.startswith("MESSAGE#") else 0
