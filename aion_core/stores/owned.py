"""The stores of an owner: every kind of partition in the table and of folder in the bucket. Pure.

Whoever adds a partition or a folder adds it here: `aion data delete` refuses to call its work complete as long as the
table holds a partition that is not in this list.
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
    """The part of a partition's key, or of an object's name, that leads to its owner."""

    OWNER = "owner"
    """The owner itself, quoted."""
    THREAD = "thread"
    """The hash of an owner, an agent and a context."""
    SESSION = "session"
    """The hash of an owner, an app and a session."""
    USER = "user"
    """The hash of an owner and an app."""
    API_KEY = "api-key"
    """The id of an API key, whose item names its principal."""
    NOBODY = "nobody"
    """No owner: it belongs to the deployment, or to all users of an app."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """One kind of partition: those whose key begins with `prefix`."""

    prefix: str
    named_by: NamedBy
    stores: Mapping[str, str]
    """The store that a report names, by the pattern of the sort key; the first match counts."""

    def store_of(self, sort: str) -> str:
        """Return the store that the item with this sort key belongs to."""
        return next(store for pattern, store in self.stores.items() if fnmatchcase(sort, pattern))


@dataclass(frozen=True, slots=True)
class Folder:
    """One kind of object: those whose name begins with `prefix`, which ends with a slash."""

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
"""The stores in the order of a report."""


def partitions_of(partition: str) -> Partitions | None:
    """Return the kind of the partition with this key; None for a kind that is not in the list."""
    return next((each for each in PARTITIONS if partition.startswith(each.prefix)), None)


def owner_of(partition: str) -> str:
    """Return the owner that the key of a partition names, of a kind that is named by owners."""
    return unquote(partition.split("#")[1])


def id_of(partition: str) -> str:
    """Return what follows the prefix of a partition's key, such as the hash of a thread."""
    return partition.partition("#")[2]


def context_of(item: Item) -> ContextKey | None:
    """Return the context that an item of an owner's partition belongs to; None if the item does not tell.

    A message id or an idempotency key tells it as long as it is kept, a task as long as its head is there.
    """
    key = keys.key_of(item)
    if key.partition.startswith(("CONTEXT#", "MESSAGE#")):
        return keys.context_of(key)
    if key.partition.startswith(keys.TASKS) and key.sort == keys.HEAD:
        return ContextKey(keys.task_of(key).owner, item["agent"], item["context_id"])
    return None


def rank_of(key: Key) -> int:
    """Return when an item is deleted, the lowest first: what leads to hashed partitions must go last.

    So a deletion that is killed finds the rest when it is run again.
    """
    if key.partition.startswith("CONTEXT#"):
        return 2
    is_head = key.sort == keys.HEAD and key.partition.startswith((keys.TASKS, "SESSION#"))
    return 1 if is_head or key.partition.startswith("MESSAGE#") else 0
