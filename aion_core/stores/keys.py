"""The keys of every kind of item in the table. Pure.

Every key contains the owner, so isolation is structural. A client's own choice (a contextId, a messageId) stands last in
its key: no choice of characters leads to another owner's items.
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
"""What the partitions of all tasks begin with."""


def key_of(item: Item) -> Key:
    """Return the key of the item, or of the item of an index's entry."""
    return Key(item[PARTITION], item[SORT])


def task_partition(task: TaskKey) -> str:
    """Return the partition that holds a task's head and its events."""
    return f"{TASKS}{quoted(task.owner)}#{task.task_id}"


def task_of(key: Key) -> TaskKey:
    """Return the task in whose partition this is."""
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
    """Return the sort key of the task as it is after event `generation`: right after that event."""
    return f"{event_sort(generation)}#SNAP"


def snapshot_of(sort: str) -> int | None:
    """Return of which event the sort key is the snapshot's, None where it is none."""
    _, generation, *rest = sort.split("#")
    return int(generation) if rest == ["SNAP"] else None


def snapshot_key(task: TaskKey, generation: int) -> Key:
    """Return the key of the task as it is after event `generation`."""
    return Key(task_partition(task), snapshot_sort(generation))


def delta_partition(task: TaskKey) -> str:
    """Return the partition of a task's stream deltas: apart, for they come often and go soon."""
    return f"DELTA#{quoted(task.owner)}#{task.task_id}"


def delta_sort(place: Cursor) -> str:
    """Return the sort key of the batch whose first chunk is at that place."""
    return f"{place.generation:010d}.{place.fence:010d}.{place.n:010d}"


def delta_key(task: TaskKey, place: Cursor) -> Key:
    """Return the key of a batch of stream deltas."""
    return Key(delta_partition(task), delta_sort(place))


def asked_key(task: TaskKey, turn_id: str) -> Key:
    """Return the key of a message that waits for a task at work."""
    return Key(task_partition(task), f"ASKED#{turn_id}")


def push_sort(config_id: str) -> str:
    """Return the sort key of a push config; those of a task sort after its head."""
    return f"PUSH#{config_id}"


def push_config_of(sort: str) -> str:
    """Return the id of the push config whose sort key this is."""
    return sort.partition("#")[2]


def push_key(task: TaskKey, config_id: str) -> Key:
    """Return the key of a push config of the task, and of how far it has come."""
    return Key(task_partition(task), push_sort(config_id))


def context_key(context: ContextKey) -> Key:
    """Return the key of a context: its lease, and the turns that wait."""
    return Key(f"CONTEXT#{quoted(context.owner)}#{context.agent}#{context.context_id}", HEAD)


def context_of(key: Key) -> ContextKey:
    """Return the context whose key this is."""
    _, owner, agent, context_id = key.partition.split("#", 3)
    return ContextKey(unquote(owner), agent, context_id)


def message_key(context: ContextKey, message_id: str) -> Key:
    """Return the key that is written once per messageId of a context (R52, R110)."""
    return Key(f"MESSAGE#{quoted(context.owner)}#{context.agent}#{context.context_id}", message_id)


def idempotency_key(owner: str, agent: str, key: str) -> Key:
    """Return the key that is written once per Idempotency-Key of an owner (D17); no contextId is empty."""
    return message_key(ContextKey(owner, agent, ""), key)


TIMER_SHARDS = 16
"""Over how many partitions of the index what is due is spread: one of them takes 1000 writes a second."""


def timer_shard(context: ContextKey) -> str:
    """Return the partition of the index in which a context is due."""
    return timer_partition(crc32(context_key(context).partition.encode()) % TIMER_SHARDS)


def timer_partition(shard: int) -> str:
    """Return the index's partition of this number."""
    return f"DUE#{shard:02d}"


def push_timer_shard(task: TaskKey) -> str:
    """Return the partition of the index in which a task's events and push configs are due."""
    return push_timer_partition(crc32(task_partition(task).encode()) % TIMER_SHARDS)


def push_timer_partition(shard: int) -> str:
    """Return the index's partition of this number: apart from the contexts', which wait for none of these."""
    return f"DUE#PUSH#{shard:02d}"


def push_timer_key(expired_timers: ExpiredPushTimer) -> Key:
    """Return the key of the event, or of the push config, that is overdue."""
    if expired_timers.generation:
        return event_key(expired_timers.task, expired_timers.generation)
    return push_key(expired_timers.task, expired_timers.config_id)


def push_timer_of(key: Key, at: datetime) -> ExpiredPushTimer:
    """Return what is overdue whose key this is."""
    task = task_of(key)
    kind, _, name = key.sort.partition("#")
    return ExpiredPushTimer(task, at, int(name)) if kind == "EVENT" else ExpiredPushTimer(task, at, config_id=name)


def quoted(owner: str) -> str:
    """Return the owner as it stands in a key: an issuer may hold a "#", which parts the words of a key."""
    return quote(owner, safe=":/@|. ")


def listing_agent(owner: str, agent: str) -> str:
    """Return what the tasks of an owner and agent have in common: the partition of the index `by_agent`."""
    # What stands before the last has its own "#" escaped: no two owners and agents come to the same text.
    return f"{quote(owner, safe='')}#{quote(agent, safe='')}"


def listing_context(context: ContextKey) -> str:
    """Return what the tasks of a context have in common: the partition of the index `by_context`."""
    return f"{listing_agent(context.owner, context.agent)}#{context.context_id}"


def listing_at(milliseconds: int, task_id: str = "") -> str:
    """Return where a task stands in the two indexes: by the time of its status, then by its id.

    Without an id it sorts before every task of that time.
    """
    return f"{max(milliseconds, 0):015d}#{task_id}"


class Listed(NamedTuple):
    """What `listing_at` says."""

    milliseconds: int
    task_id: str


def listed(at: str) -> Listed:
    """Return what the sort key of a listing says."""
    milliseconds, _, task_id = at.partition("#")
    return Listed(int(milliseconds), task_id)


def secret_key(name: str) -> Key:
    """Return the key of a secret of this deployment."""
    return Key(f"SECRET#{name}", HEAD)


LISTING_API_KEYS = "#API-KEYS"
"""What the API keys have in common in the index `by_agent`: no owner's tasks do, whose "#" is escaped."""


def api_key_key(key_id: str) -> Key:
    """Return the key of the item of an API key."""
    return Key(f"API-KEY#{key_id}", HEAD)


def api_key_of(key: Key) -> str:
    """Return the id of the API key whose item has this key."""
    key_id: str = key.partition.partition("#")[2]
    return key_id


def requests_key(owner: str) -> Key:
    """Return the key of the item that counts the owner's requests."""
    return Key(f"LIMIT#{quoted(owner)}", "REQUESTS")


def streams_key(owner: str) -> Key:
    """Return the key of the item that holds the owner's open streams."""
    return Key(f"LIMIT#{quoted(owner)}", "STREAMS")


def tasks_key(owner: str) -> Key:
    """Return the key of the item that counts the owner's open tasks."""
    return Key(f"LIMIT#{quoted(owner)}", "TASKS")


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()


def thread_partition(thread_id: str) -> str:
    """Return the partition that holds a LangGraph thread: its checkpoints, subgraphs' included."""
    return f"THREAD#{thread_id}"


def namespace_sort(ns: str | None) -> str:
    """Return what the sort keys of a checkpoint_ns begin with; None asks for those of all."""
    # Node names are the author's and may hold a "#"; "|" and ":" are LangGraph's own.
    return "CHECKPOINT#" if ns is None else f"CHECKPOINT#{quote(ns, safe='|:')}#"


def checkpoint_sort(ns: str, checkpoint_id: str) -> str:
    """Return the sort key of a checkpoint; the ids grow with time, so the newest sorts last."""
    return f"{namespace_sort(ns)}{checkpoint_id}"


def checkpoint_key(thread_id: str, ns: str, checkpoint_id: str) -> Key:
    """Return the key of a checkpoint."""
    return Key(thread_partition(thread_id), checkpoint_sort(ns, checkpoint_id))


def writes_key(thread_id: str, ns: str, checkpoint_id: str, task_id: str, page: int) -> Key:
    """Return the key of a page of what a LangGraph task wrote; it sorts right after its checkpoint."""
    return Key(thread_partition(thread_id), f"{checkpoint_sort(ns, checkpoint_id)}#{task_id}#{page:02d}")


class CheckpointSort(NamedTuple):
    """The sort key of a checkpoint, or, with a task_id, of what a LangGraph task wrote."""

    ns: str
    checkpoint_id: str
    task_id: str = ""


def checkpoint_of(sort: str) -> CheckpointSort:
    """Return what the sort key says."""
    _, ns, checkpoint_id, *rest = sort.split("#")
    return CheckpointSort(unquote(ns), checkpoint_id, *rest[:1])


def session_thread(user_id: str, app_name: str, session_id: str) -> str:
    """Return ADK's persistence id: of this owner, app and session and of no other."""
    return _hash(user_id, app_name, session_id)


def session_partition(thread: str) -> str:
    """Return the partition that holds an ADK session: its events, its head and its state, which sort in this order."""
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
    """Return what the sessions of an owner and app have in common in the index `by_agent`: apart from their tasks."""
    return f"#SESSIONS#{listing_agent(user_id, app_name)}"


def user_state_partition(user_id: str, app_name: str) -> str:
    """Return the partition that holds what an owner's sessions with an app share."""
    return f"USER#{_hash(user_id, app_name)}"


def app_state_partition(app_name: str) -> str:
    """Return the partition that holds what all sessions with an app share."""
    return f"APP#{_hash(app_name)}"


def shared_state_key(partition: str, name: str) -> Key:
    """Return the key of one value of shared state; names are the author's, and may be longer than a key."""
    return Key(partition, f"STATE#{_hash(name)}")


def memory_partition(owner: str) -> str:
    """Return the partition that holds the owner's long-term memory, of all agents."""
    return f"MEMORY#{quoted(owner)}"


def memory_prefix(agent: str, namespace: tuple[str, ...]) -> str:
    """Return the start of the sort keys of an agent's items whose namespaces begin with this one."""
    # A label holds no "." and is not empty: ".." ends the namespace, and no namespace is the start of another's label.
    return f"{quote(agent, safe='')}#" + "".join(f"{label}." for label in namespace)


def memory_sort(agent: str, namespace: tuple[str, ...], key: str) -> str:
    """Return the sort key of an item of long-term memory; those of one namespace stand together."""
    return f"{memory_prefix(agent, namespace)}.{key}"


def memory_key(owner: str, agent: str, namespace: tuple[str, ...], key: str) -> Key:
    """Return the key of an item of long-term memory."""
    return Key(memory_partition(owner), memory_sort(agent, namespace, key))


class MemorySort(NamedTuple):
    """The parts of the sort key of an item of long-term memory, without the agent."""

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
    # As JSON: no two lists of words have the same text, whatever characters are in them.
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
