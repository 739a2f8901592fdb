"""Keys of all items in the table. Pure.

Each key of an owner's data contains the owner, or a hash of the owner and other ids: this isolates the owners. An id
that a client chooses (contextId, messageId) is the last part of its key, so no choice of characters leads to another
owner's items.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

from msgspec import Struct

from aion_core.table.item import Key


class ContextKey(Struct, frozen=True):
    """Key of a context (conversation). Owners and agents have separate contexts, even with the same contextId."""

    owner: str
    agent: str
    context_id: str


class TaskKey(Struct, frozen=True):
    """Key of a task. It contains the owner, so that no read can reach another owner's task."""

    owner: str
    task_id: str


HEAD = "HEAD"

TASKS = "TASK#"
"""Prefix of the partitions of tasks."""


def task_partition(task: TaskKey) -> str:
    """Return the partition of a task's items: its head (state and last event number), events and push configs."""
    return f"{TASKS}{quoted(task.owner)}#{task.task_id}"


def task_of(key: Key) -> TaskKey:
    """Parse the key of an item in a task's partition into the task's owner and id."""
    _, owner, task_id = key.partition.split("#", 2)
    return TaskKey(unquote(owner), task_id)


def head_key(task: TaskKey) -> Key:
    """Return the key of a task's head, the item with its state and last event number."""
    return Key(task_partition(task), HEAD)


def event_sort(generation: int) -> str:
    """Return the sort key of the event with this number. Events sort before the head, so one query reads both."""
    return f"EVENT#{generation:010d}"


def event_key(task: TaskKey, generation: int) -> Key:
    """Return the key of a task's event by its number (`generation`)."""
    return Key(task_partition(task), event_sort(generation))


def snapshot_sort(generation: int) -> str:
    """Return the sort key of a task's snapshot made after event `generation`. It sorts directly after this event."""
    return f"{event_sort(generation)}#SNAP"


def snapshot_of(sort: str) -> int | None:
    """Parse a snapshot's sort key into the number of its last event. Return None for the sort key of another item."""
    _, generation, *rest = sort.split("#")
    return int(generation) if rest == ["SNAP"] else None


def snapshot_key(task: TaskKey, generation: int) -> Key:
    """Return the key of a task's snapshot made after event `generation`."""
    return Key(task_partition(task), snapshot_sort(generation))


def delta_partition(task: TaskKey) -> str:
    """Return the partition of a task's stream deltas. It is separate from the task's events: deltas expire soon."""
    return f"DELTA#{quoted(task.owner)}#{task.task_id}"


def delta_sort(generation: int, fence: int, n: int) -> str:
    """Return the sort key of a batch of stream deltas by the position of its first chunk."""
    return f"{generation:010d}.{fence:010d}.{n:010d}"


def delta_key(task: TaskKey, generation: int, fence: int, n: int) -> Key:
    """Return the key of a batch of stream deltas by the position of its first chunk."""
    return Key(delta_partition(task), delta_sort(generation, fence, n))


def trace_partition(task: TaskKey) -> str:
    """Return the partition of the recorded steps of a task's turns. It is separate, as the steps expire soon."""
    return f"TRACE#{quoted(task.owner)}#{task.task_id}"


def trace_key(task: TaskKey, fence: int, page: int) -> Key:
    """Return the key of a page of the steps that a turn has recorded under the lease with this fence."""
    return Key(trace_partition(task), f"{fence:010d}.{page:05d}")


def queued_message_key(task: TaskKey, turn_id: str) -> Key:
    """Return the key of a message queued for a running task."""
    return Key(task_partition(task), f"QUEUED#{turn_id}")


def call_key(task: TaskKey, call: str) -> Key:
    """Return the key of a task's call of a remote agent. `call` may be of any length, so it is hashed."""
    return Key(task_partition(task), f"{CALLS}{_hash(call)[:32]}")


def sleep_key(task: TaskKey, sleep: str) -> Key:
    """Return the key of a sleep of a task's agent. `sleep` may be of any length, so it is hashed."""
    return Key(task_partition(task), f"AWAKE#{_hash(sleep)[:32]}")


def callback_key(token_hash: str) -> Key:
    """Return the key of the item with the one-use token of a callback, by the token's hash: the token is not stored."""
    return Key(f"CALLBACK#{token_hash}", HEAD)


CALLS = "CALL#"
"""Prefix of the sort keys of a task's calls of remote agents. They sort before the task's events."""

CALL_TIMERS = "DUE#CALL"
"""Partition of the timer index with the remote calls to cancel. There are few, so one partition is enough."""


def push_sort(config_id: str) -> str:
    """Return the sort key of a push config (a registered webhook). It sorts after the task's head."""
    return f"PUSH#{config_id}"


PUSH_END = "PUSH$"
"""End of the sort keys of push configs: `$` follows `#`."""


def push_config_of(sort: str) -> str:
    """Parse the sort key of a push config into the config's id."""
    return sort.partition("#")[2]


def push_key(task: TaskKey, config_id: str) -> Key:
    """Return the key of the item with a push config and the state of its delivery."""
    return Key(task_partition(task), push_sort(config_id))


def context_key(context: ContextKey) -> Key:
    """Return the key of a context's item, which contains its lease and queued turns."""
    return Key(f"CONTEXT#{quoted(context.owner)}#{context.agent}#{context.context_id}", HEAD)


def context_of(key: Key) -> ContextKey:
    """Parse the key of a context's or message's item into the context's owner, agent and id."""
    _, owner, agent, context_id = key.partition.split("#", 3)
    return ContextKey(unquote(owner), agent, context_id)


def message_key(context: ContextKey, message_id: str) -> Key:
    """Return the key of a message's record, written once per messageId and context to detect repeats."""
    return Key(f"MESSAGE#{quoted(context.owner)}#{context.agent}#{context.context_id}", message_id)


def idempotency_key(owner: str, agent: str, key: str) -> Key:
    """Return the key of an Idempotency-Key's record. Its context id is empty, unlike that of a message's record."""
    return message_key(ContextKey(owner, agent, ""), key)


TIMER_SHARDS = 16
"""Number of partitions of the timer index for each kind of timer. DynamoDB takes 1000 writes a second in each."""


class TimerOf(StrEnum):
    """Kind of a context's timer: the beginning of its partitions of the timer index."""

    LEASE = "DUE#"
    """A turn runs under a lease. The timer expires with the lease: its holder has died."""
    WAIT = "DUE#WAIT#"
    """A turn waits for a worker. An expired timer does not mean that the wake-up message is lost: it may be queued."""


def timer_shard(context: ContextKey, kind: TimerOf) -> str:
    """Return the partition of the timer index with a context's timer of this kind."""
    return timer_partition(crc32(context_key(context).partition.encode()) % TIMER_SHARDS, kind)


def timer_partition(shard: int, kind: TimerOf) -> str:
    """Return the timer index partition with this number, from 0 to TIMER_SHARDS - 1, for contexts' timers of a kind."""
    return f"{kind.value}{shard:02d}"


class PushTimerOf(StrEnum):
    """Kind of a push timer: the beginning of its partitions of the timer index. Contexts use other partitions."""

    PLAN = "DUE#PUSH#"
    """A process has claimed a push config, or its retry has no wake-up message. An expired timer needs a message."""
    WAIT = "DUE#PUSH#WAIT#"
    """An event or a push config has a wake-up message. An expired timer does not mean that the message is lost."""


def push_timer_shard(task: TaskKey, kind: PushTimerOf) -> str:
    """Return the partition of the timer index with a task's push timers of this kind."""
    return push_timer_partition(crc32(task_partition(task).encode()) % TIMER_SHARDS, kind)


def push_timer_partition(shard: int, kind: PushTimerOf) -> str:
    """Return the timer index partition with this number, from 0 to TIMER_SHARDS - 1, for push timers of a kind."""
    return f"{kind.value}{shard:02d}"


@lru_cache(maxsize=4096)
def owner_tag(owner: str) -> str:
    """Return the tag of an owner in its items and in the names of its objects: a hash of 128 bits.

    It has always 22 characters, so that an item costs no more for a long owner, and an object's name keeps its room.
    """
    return urlsafe_b64encode(hashlib.sha256(owner.encode()).digest()[:16]).decode().rstrip("=")


def owner_folder(folder: str, owner: str) -> str:
    """Return the folder of an owner's objects in this folder of the bucket."""
    return f"{folder}/{owner_tag(owner)}"


@lru_cache(maxsize=4096)
def quoted(owner: str) -> str:
    """Escape "#" in an owner's name, since "#" separates a key's parts. A name may contain a URL (a token's issuer)."""
    return quote(owner, safe=":/@|. ")


@lru_cache(maxsize=4096)
def _escaped(text: str) -> str:
    return quote(text, safe="")


def listing_agent(owner: str, agent: str) -> str:
    """Return the partition of the index `by_agent` with an owner's tasks of one agent."""
    # Escape "#" in both parts, so that no two pairs of owner and agent share a partition.
    return f"{_escaped(owner)}#{_escaped(agent)}"


def listing_context(context: ContextKey) -> str:
    """Return the partition of the index `by_context` with the tasks of one context."""
    return f"{listing_agent(context.owner, context.agent)}#{context.context_id}"


def context_of_listing(partition: str) -> ContextKey:
    """Parse a partition made by `listing_context` into the context's owner, agent and id."""
    owner, agent, context_id = partition.split("#", 2)
    return ContextKey(unquote(owner), unquote(agent), context_id)


def listing_at(milliseconds: int, task_id: str = "") -> str:
    """Return a task's sort key in the indexes `by_agent` and `by_context`: its status time and its id.

    Without an id, the key sorts before all tasks with this time.
    """
    return f"{max(milliseconds, 0):015d}#{task_id}"


class Listed(NamedTuple):
    """Status time and task id of an entry in the list indexes, parsed from its sort key."""

    milliseconds: int
    task_id: str


def listed(at: str) -> Listed:
    """Parse a sort key made by `listing_at` into the status time and the task id."""
    milliseconds, _, task_id = at.partition("#")
    return Listed(int(milliseconds), task_id)


def secret_key(name: str) -> Key:
    """Return the key of the item with this secret of the deployment."""
    return Key(f"SECRET#{name}", HEAD)


LISTING_API_KEYS = "#API-KEYS"
"""Partition of the index `by_agent` for API keys. Owners in partitions of tasks have their "#" escaped."""


def api_key_key(key_id: str) -> Key:
    """Return the key of an API key's item."""
    return Key(f"API-KEY#{key_id}", HEAD)


def api_key_of(key: Key) -> str:
    """Parse the key of an API key's item into the API key's id."""
    return key.partition.partition("#")[2]


def requests_key(caller: str) -> Key:
    """Return the key of the item with a caller's request counter."""
    return Key(f"LIMIT#{quoted(caller)}", "REQUESTS")


def callbacks_limit_key(owner: str, token_hash: str) -> Key:
    """Return the key of the item that counts the requests with the token of one of the owner's callbacks."""
    return Key(f"LIMIT#{quoted(owner)}", f"CALLBACK#{token_hash}")


def streams_key(caller: str) -> Key:
    """Return the key of the item with a caller's open streams."""
    return Key(f"LIMIT#{quoted(caller)}", "STREAMS")


def tasks_key(caller: str) -> Key:
    """Return the key of the item with a caller's open tasks."""
    return Key(f"LIMIT#{quoted(caller)}", "TASKS")


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's thread_id for a context: a hash of its owner, agent and id."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()


def thread_partition(thread_id: str) -> str:
    """Return the partition of a LangGraph thread's checkpoints, including those of subgraphs."""
    return f"THREAD#{thread_id}"


def namespace_sort(ns: str | None) -> str:
    """Return the prefix of the sort keys in a checkpoint namespace, or in all namespaces if `ns` is None."""
    # Keep "|" and ":", because they are LangGraph's separators. Escape "#", because a node name may contain it.
    return "CHECKPOINT#" if ns is None else f"CHECKPOINT#{quote(ns, safe='|:')}#"


def checkpoint_sort(ns: str, checkpoint_id: str) -> str:
    """Return the sort key of a checkpoint. Checkpoint ids grow with time, so the newest checkpoint is last."""
    return f"{namespace_sort(ns)}{checkpoint_id}"


def checkpoint_key(thread_id: str, ns: str, checkpoint_id: str) -> Key:
    """Return the key of a checkpoint."""
    return Key(thread_partition(thread_id), checkpoint_sort(ns, checkpoint_id))


def writes_key(thread_id: str, ns: str, checkpoint_id: str, task_id: str, page: int) -> Key:
    """Return the key of a page of a LangGraph task's writes. It sorts directly after the task's checkpoint."""
    return Key(thread_partition(thread_id), f"{checkpoint_sort(ns, checkpoint_id)}#{task_id}#{page:02d}")


class CheckpointSort(NamedTuple):
    """Parsed sort key of a checkpoint, or of a LangGraph task's writes if it has a task_id."""

    ns: str
    checkpoint_id: str
    task_id: str = ""


def checkpoint_of(sort: str) -> CheckpointSort:
    """Parse a checkpoint's sort key into its namespace, checkpoint id and, for writes, task id."""
    _, ns, checkpoint_id, *rest = sort.split("#")
    return CheckpointSort(unquote(ns), checkpoint_id, *rest[:1])


def session_thread(user_id: str, app_name: str, session_id: str) -> str:
    """Return the id of an ADK session's partition: a hash of the owner, the app and the session id."""
    return _hash(user_id, app_name, session_id)


def session_partition(thread: str) -> str:
    """Return the partition of an ADK session: its events, then its head item, then its state, in sort order."""
    return f"SESSION#{thread}"


def session_head_key(thread: str) -> Key:
    """Return the key of an ADK session's head, the item with its revision and the time of its last event."""
    return Key(session_partition(thread), HEAD)


def session_event_key(thread: str, number: int) -> Key:
    """Return the key of an ADK session's event by its number."""
    return Key(session_partition(thread), event_sort(number))


SESSION_STATE = "STATE"


def session_state_key(thread: str) -> Key:
    """Return the key of an ADK session's own state. It sorts directly after the session's head."""
    return Key(session_partition(thread), SESSION_STATE)


def listing_sessions(user_id: str, app_name: str) -> str:
    """Return the partition of the index `by_agent` with an owner's ADK sessions of an app. It has no tasks."""
    return f"#SESSIONS#{listing_agent(user_id, app_name)}"


def user_state_partition(user_id: str, app_name: str) -> str:
    """Return the partition with the state that all ADK sessions of a user with an app share."""
    return f"USER#{_hash(user_id, app_name)}"


def app_state_partition(app_name: str) -> str:
    """Return the partition with the state that all ADK sessions of an app share."""
    return f"APP#{_hash(app_name)}"


def shared_state_key(partition: str, name: str) -> Key:
    """Return the key of a value of shared ADK state. The name is hashed, because it may be too long for a key."""
    return Key(partition, f"STATE#{_hash(name)}")


def memory_partition(owner: str) -> str:
    """Return the partition with the owner's long-term memory of all agents."""
    return f"MEMORY#{quoted(owner)}"


def memory_prefix(agent: str, namespace: tuple[str, ...]) -> str:
    """Return the prefix of the sort keys of all long-term memory in a namespace and its child namespaces."""
    # End each label with ".". Then ".." ends the namespace, because a label is not empty and contains no ".".
    return f"{_escaped(agent)}#" + "".join(f"{label}." for label in namespace)


def memory_sort(agent: str, namespace: tuple[str, ...], key: str) -> str:
    """Return the sort key of an item of long-term memory. Items of one namespace are adjacent."""
    return f"{memory_prefix(agent, namespace)}.{key}"


def memory_key(owner: str, agent: str, namespace: tuple[str, ...], key: str) -> Key:
    """Return the key of an item of long-term memory."""
    return Key(memory_partition(owner), memory_sort(agent, namespace, key))


class MemorySort(NamedTuple):
    """Namespace and key of an item of long-term memory, parsed from its sort key."""

    namespace: tuple[str, ...]
    key: str


def memory_of(sort: str) -> MemorySort:
    """Parse the sort key of an item of long-term memory into its namespace and key."""
    rest = sort.partition("#")[2]
    if rest.startswith("."):
        return MemorySort((), rest[1:])
    namespace, _, key = rest.partition("..")
    return MemorySort(tuple(namespace.split(".")), key)


def _hash(*words: str) -> str:
    # Use JSON, because it encodes different lists of words differently.
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
