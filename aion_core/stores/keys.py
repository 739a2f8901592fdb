"""Keys of all items in the table. Pure.

Every key contains the owner, so isolation is structural. Ids chosen by clients (contextId, messageId) are the last part
of a key: no choice of characters leads to another owner's items.
"""

import hashlib
import json
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

from aion_core.ports import ContextKey, Cursor, ExpiredPushTimer, TaskKey
from aion_core.ports.table import LAST as LAST
from aion_core.ports.table import PARTITION, SORT, Item, Key

HEAD = "HEAD"

TASKS = "TASK#"
"""Prefix of the partitions of tasks."""


def key_of(item: Item) -> Key:
    """Return the key of an item or of an index entry's item."""
    return Key(item[PARTITION], item[SORT])


def task_partition(task: TaskKey) -> str:
    """Return the partition of a task's head and events."""
    return f"{TASKS}{quoted(task.owner)}#{task.task_id}"


def task_of(key: Key) -> TaskKey:
    """Return the task of a key in its partition."""
    _, owner, task_id = key.partition.split("#", 2)
    return TaskKey(unquote(owner), task_id)


def head_key(task: TaskKey) -> Key:
    """Return the key of a task's head."""
    return Key(task_partition(task), HEAD)


def event_sort(generation: int) -> str:
    """Return the sort key of event `generation`; it sorts before the head, so one query reads both."""
    return f"EVENT#{generation:010d}"


def event_key(task: TaskKey, generation: int) -> Key:
    """Return the key of an event of the task."""
    return Key(task_partition(task), event_sort(generation))


def snapshot_sort(generation: int) -> str:
    """Return the sort key of the task's snapshot after event `generation`; it sorts right after that event."""
    return f"{event_sort(generation)}#SNAP"


def snapshot_of(sort: str) -> int | None:
    """Return the event number of a snapshot's sort key, None for another item."""
    _, generation, *rest = sort.split("#")
    return int(generation) if rest == ["SNAP"] else None


def snapshot_key(task: TaskKey, generation: int) -> Key:
    """Return the key of the task's snapshot after event `generation`."""
    return Key(task_partition(task), snapshot_sort(generation))


def delta_partition(task: TaskKey) -> str:
    """Return the partition of a task's stream deltas, separate from its events: they are many and expire soon."""
    return f"DELTA#{quoted(task.owner)}#{task.task_id}"


def delta_sort(first: Cursor) -> str:
    """Return the sort key of the batch with this first chunk."""
    return f"{first.generation:010d}.{first.fence:010d}.{first.n:010d}"


def delta_key(task: TaskKey, first: Cursor) -> Key:
    """Return the key of a batch of stream deltas."""
    return Key(delta_partition(task), delta_sort(first))


def queued_message_key(task: TaskKey, turn_id: str) -> Key:
    """Return the key of a message queued for a running task."""
    return Key(task_partition(task), f"ASKED#{turn_id}")


def push_sort(config_id: str) -> str:
    """Return the sort key of a push config; it sorts after the task's head."""
    return f"PUSH#{config_id}"


def push_config_of(sort: str) -> str:
    """Return the id of the push config with this sort key."""
    return sort.partition("#")[2]


def push_key(task: TaskKey, config_id: str) -> Key:
    """Return the key of a push config and its delivery."""
    return Key(task_partition(task), push_sort(config_id))


def context_key(context: ContextKey) -> Key:
    """Return the key of a context, with its lease and queued turns."""
    return Key(f"CONTEXT#{quoted(context.owner)}#{context.agent}#{context.context_id}", HEAD)


def context_of(key: Key) -> ContextKey:
    """Return the context with this key."""
    _, owner, agent, context_id = key.partition.split("#", 3)
    return ContextKey(unquote(owner), agent, context_id)


def message_key(context: ContextKey, message_id: str) -> Key:
    """Return the key of a message's record: it is written once for each messageId of a context."""
    return Key(f"MESSAGE#{quoted(context.owner)}#{context.agent}#{context.context_id}", message_id)


def idempotency_key(owner: str, agent: str, key: str) -> Key:
    """Return the key of an Idempotency-Key's record, unique for the owner and agent; no contextId is empty."""
    return message_key(ContextKey(owner, agent, ""), key)


TIMER_SHARDS = 16
"""Partitions of the timer index for each kind of timer; each takes 1000 writes a second."""


def timer_shard(context: ContextKey) -> str:
    """Return the index partition of a context's timer."""
    return timer_partition(crc32(context_key(context).partition.encode()) % TIMER_SHARDS)


def timer_partition(shard: int) -> str:
    """Return the index partition of the contexts' timers with this number."""
    return f"DUE#{shard:02d}"


def push_timer_shard(task: TaskKey) -> str:
    """Return the index partition of the timers of a task's events and push configs."""
    return push_timer_partition(crc32(task_partition(task).encode()) % TIMER_SHARDS)


def push_timer_partition(shard: int) -> str:
    """Return the index partition of push timers with this number; contexts have partitions of their own."""
    return f"DUE#PUSH#{shard:02d}"


def push_timer_key(timer: ExpiredPushTimer) -> Key:
    """Return the key of the timer's event or push config."""
    return event_key(timer.task, timer.generation) if timer.generation else push_key(timer.task, timer.config_id)


def push_timer_of(key: Key, at: datetime) -> ExpiredPushTimer:
    """Return the expired timer of the event or push config with this key."""
    task = task_of(key)
    kind, _, name = key.sort.partition("#")
    return ExpiredPushTimer(task, at, int(name)) if kind == "EVENT" else ExpiredPushTimer(task, at, config_id=name)


def quoted(owner: str) -> str:
    """Return the owner with "#" escaped, the separator of a key's parts: an issuer may contain it."""
    return quote(owner, safe=":/@|. ")


def listing_agent(owner: str, agent: str) -> str:
    """Return the partition of the index `by_agent` with the tasks of an owner and agent."""
    # Both parts have "#" escaped: different owners and agents give different texts.
    return f"{quote(owner, safe='')}#{quote(agent, safe='')}"


def listing_context(context: ContextKey) -> str:
    """Return the partition of the index `by_context` with the tasks of a context."""
    return f"{listing_agent(context.owner, context.agent)}#{context.context_id}"


def listing_at(milliseconds: int, task_id: str = "") -> str:
    """Return the sort key of a task in both indexes: the time of its status, then its id.

    Without an id it sorts before every task with that time.
    """
    return f"{max(milliseconds, 0):015d}#{task_id}"


class Listed(NamedTuple):
    """Parts of a listing's sort key."""

    milliseconds: int
    task_id: str


def listed(at: str) -> Listed:
    """Return the parts of the sort key made by `listing_at`."""
    milliseconds, _, task_id = at.partition("#")
    return Listed(int(milliseconds), task_id)


def secret_key(name: str) -> Key:
    """Return the key of a secret of this deployment."""
    return Key(f"SECRET#{name}", HEAD)


LISTING_API_KEYS = "#API-KEYS"
"""Partition of the index `by_agent` with the API keys; partitions of tasks have their "#" escaped."""


def api_key_key(key_id: str) -> Key:
    """Return the key of an API key's item."""
    return Key(f"API-KEY#{key_id}", HEAD)


def api_key_of(key: Key) -> str:
    """Return the id of the API key with this item."""
    key_id: str = key.partition.partition("#")[2]
    return key_id


def requests_key(owner: str) -> Key:
    """Return the key of the owner's request counter."""
    return Key(f"LIMIT#{quoted(owner)}", "REQUESTS")


def streams_key(owner: str) -> Key:
    """Return the key of the owner's open streams."""
    return Key(f"LIMIT#{quoted(owner)}", "STREAMS")


def tasks_key(owner: str) -> Key:
    """Return the key of the owner's open tasks."""
    return Key(f"LIMIT#{quoted(owner)}", "TASKS")


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's thread_id, unique for the owner, agent and context."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()


def thread_partition(thread_id: str) -> str:
    """Return the partition of a LangGraph thread's checkpoints, including those of subgraphs."""
    return f"THREAD#{thread_id}"


def namespace_sort(ns: str | None) -> str:
    """Return the prefix of a checkpoint_ns's sort keys; None for all namespaces."""
    # Node names may contain a "#"; "|" and ":" are LangGraph's separators.
    return "CHECKPOINT#" if ns is None else f"CHECKPOINT#{quote(ns, safe='|:')}#"


def checkpoint_sort(ns: str, checkpoint_id: str) -> str:
    """Return the sort key of a checkpoint; the ids grow with time, so the newest sorts last."""
    return f"{namespace_sort(ns)}{checkpoint_id}"


def checkpoint_key(thread_id: str, ns: str, checkpoint_id: str) -> Key:
    """Return the key of a checkpoint."""
    return Key(thread_partition(thread_id), checkpoint_sort(ns, checkpoint_id))


def writes_key(thread_id: str, ns: str, checkpoint_id: str, task_id: str, page: int) -> Key:
    """Return the key of a page of a LangGraph task's writes; it sorts right after its checkpoint."""
    return Key(thread_partition(thread_id), f"{checkpoint_sort(ns, checkpoint_id)}#{task_id}#{page:02d}")


class CheckpointSort(NamedTuple):
    """Parts of the sort key of a checkpoint, or, with a task_id, of a LangGraph task's writes."""

    ns: str
    checkpoint_id: str
    task_id: str = ""


def checkpoint_of(sort: str) -> CheckpointSort:
    """Return the parts of the sort key."""
    _, ns, checkpoint_id, *rest = sort.split("#")
    return CheckpointSort(unquote(ns), checkpoint_id, *rest[:1])


def session_thread(user_id: str, app_name: str, session_id: str) -> str:
    """Return the partition id of an ADK session, unique for the owner, app and session."""
    return _hash(user_id, app_name, session_id)


def session_partition(thread: str) -> str:
    """Return the partition of an ADK session: its events, head and state sort in this order."""
    return f"SESSION#{thread}"


def session_head_key(thread: str) -> Key:
    """Return the key of a session's head."""
    return Key(session_partition(thread), HEAD)


def session_event_key(thread: str, number: int) -> Key:
    """Return the key of event `number` of the session."""
    return Key(session_partition(thread), event_sort(number))


SESSION_STATE = "STATE"


def session_state_key(thread: str) -> Key:
    """Return the key of the session's own state; it sorts right after the head."""
    return Key(session_partition(thread), SESSION_STATE)


def listing_sessions(user_id: str, app_name: str) -> str:
    """Return the partition of the index `by_agent` with the sessions of an owner and app; tasks have another."""
    return f"#SESSIONS#{listing_agent(user_id, app_name)}"


def user_state_partition(user_id: str, app_name: str) -> str:
    """Return the partition of the state shared by an owner's sessions with an app."""
    return f"USER#{_hash(user_id, app_name)}"


def app_state_partition(app_name: str) -> str:
    """Return the partition of the state shared by all sessions with an app."""
    return f"APP#{_hash(app_name)}"


def shared_state_key(partition: str, name: str) -> Key:
    """Return the key of a value of shared state; the name is hashed, since it may be longer than a key."""
    return Key(partition, f"STATE#{_hash(name)}")


def memory_partition(owner: str) -> str:
    """Return the partition of the owner's long-term memory with all agents."""
    return f"MEMORY#{quoted(owner)}"


def memory_prefix(agent: str, namespace: tuple[str, ...]) -> str:
    """Return the prefix of the sort keys in this namespace and those below it."""
    # A label is not empty and contains no ".": ".." ends the namespace, and no label is taken for the start of another.
    return f"{quote(agent, safe='')}#" + "".join(f"{label}." for label in namespace)


def memory_sort(agent: str, namespace: tuple[str, ...], key: str) -> str:
    """Return the sort key of an item of long-term memory; the items of a namespace are adjacent."""
    return f"{memory_prefix(agent, namespace)}.{key}"


def memory_key(owner: str, agent: str, namespace: tuple[str, ...], key: str) -> Key:
    """Return the key of an item of long-term memory."""
    return Key(memory_partition(owner), memory_sort(agent, namespace, key))


class MemorySort(NamedTuple):
    """Parts of the sort key of an item of long-term memory, without the agent."""

    namespace: tuple[str, ...]
    key: str


def memory_of(sort: str) -> MemorySort:
    """Return the parts of the sort key."""
    rest = sort.partition("#")[2]
    if rest.startswith("."):
        return MemorySort((), rest[1:])
    namespace, _, key = rest.partition("..")
    return MemorySort(tuple(namespace.split(".")), key)


def _hash(*words: str) -> str:
    # As JSON: different lists of words give different texts.
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
