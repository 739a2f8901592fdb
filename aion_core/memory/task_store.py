"""The task log in a dict, with the promises of `ports.TaskStore`; it lives as long as the process."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aion_core.errors import LeaseLost
from aion_core.ports import (
    MAX_WAITING,
    Begun,
    Clock,
    ContextKey,
    Cursor,
    DeltaBatch,
    FollowUp,
    Head,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    Repeated,
    TaskKey,
    Turn,
    Waiting,
)
from aion_core.protocol.types import Event, Message, StreamResponse, stream_response, unwrap
from aion_core.tasks import ingress, lifecycle


@dataclass
class _Context:
    fence: int = 0
    holder: str | None = None
    until: float = 0.0
    running: Turn | None = None
    waiting: list[Turn] = field(default_factory=list)
    interrupted: str | None = None


@dataclass
class _Entry:
    event: bytes  # serialized, so that nobody shares a message with the store
    asked: bytes | None = None
    key: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Task:
    head: Head
    log: list[_Entry]
    deltas: list[DeltaBatch] = field(default_factory=list)


class MemoryTaskStore:
    """`ports.TaskStore` for one process; safe to call from several threads."""

    def __init__(self, clock: Clock, *, lease_seconds: float = 30.0) -> None:
        self._clock, self._lease_seconds = clock, lease_seconds
        self._lock = threading.Lock()
        self._tasks: dict[TaskKey, _Task] = {}
        self._contexts: dict[ContextKey, _Context] = {}
        self._messages: dict[tuple[ContextKey, str], tuple[str, bytes]] = {}

    async def create(self, new: NewTask, *, holder: str) -> Begun | Waiting | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        with self._lock:
            repeated = self._known(new.context, new.message_id, new.content_hash)
            if repeated is not None:
                return repeated
            context = self._contexts.setdefault(new.context, _Context())
            if context.interrupted is not None:
                return Interrupted(context.interrupted)
            free = context.running is None and not context.waiting
            if not free and len(context.waiting) >= MAX_WAITING:
                raise ingress.too_many_wait()
            head = ingress.first_head(new)
            self._tasks[new.key] = _Task(head, [_Entry(_pack(event)) for event in new.events])
            self._tasks[new.key].log[0].request = new.request
            self._messages[new.context, new.message_id] = (new.key.task_id, new.content_hash)
            context.waiting.append(new.turn)
            return self._begin(new.context, context, holder) if free else Waiting(head)

    async def follow_up(self, follow_up: FollowUp, *, holder: str) -> Begun | Repeated:
        """See `ports.TaskStore.follow_up`."""
        with self._lock:
            key, head = follow_up.head.context, follow_up.head
            repeated = self._known(key, follow_up.message_id, follow_up.content_hash)
            if repeated is not None:
                return repeated
            context, task = self._contexts[key], self._tasks[head.key]
            if context.running is not None:
                raise ingress.another_runs()
            if task.head != head:
                raise ingress.no_longer_asked()
            task.log.append(
                _Entry(_pack(follow_up.event), follow_up.asked.SerializeToString(), request=follow_up.request)
            )
            task.head = lifecycle.advance(head, follow_up.event)
            self._messages[key, follow_up.message_id] = (head.key.task_id, follow_up.content_hash)
            context.waiting.insert(0, follow_up.turn)
            return self._begin(key, context, holder)

    async def known(self, context: ContextKey, message_id: str, content_hash: bytes) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        with self._lock:
            return self._known(context, message_id, content_hash)

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | None:
        """See `ports.TaskStore.begin`."""
        with self._lock:
            record = self._contexts.get(context)
            if record is None or (record.running and record.until > self._now()):
                return None
            if record.running is None and (record.interrupted is not None or not record.waiting):
                return None
            return self._begin(context, record, holder)

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        with self._lock:
            record = self._contexts.get(lease.context)
            if record is None or record.fence != lease.fence or record.holder != lease.holder:
                return False
            record.until = self._now() + self._lease_seconds
            return True

    async def append(self, lease: Lease, head: Head, event: Event, *, release: bool = False, key: str = "") -> Head:
        """See `ports.TaskStore.append`."""
        with self._lock:
            task = self._tasks[head.key]
            if task.head != replace(head, fence=lease.fence) or task.head.state in lifecycle.TERMINAL:
                raise LeaseLost("Another holder runs this context now.")
            task.log.append(_Entry(_pack(event), key=key))
            task.head = lifecycle.advance(task.head, event)
            if release:
                context = self._contexts[lease.context]
                context.holder, context.running = None, None
                context.interrupted = head.key.task_id if task.head.state in lifecycle.INTERRUPTED else None
            return task.head

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        with self._lock:
            self._tasks[key].deltas.append(batch)

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        with self._lock:
            task = self._tasks.get(key)
            return task.head if task else None

    def heads(self) -> Sequence[Head]:
        """Return the heads of all tasks, as they are now; `memory.task_list` makes its lists of them."""
        with self._lock:
            return [task.head for task in self._tasks.values()]

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        with self._lock:
            task = self._tasks.get(key)
            if task is None:
                return None
            entries = enumerate(task.log[after:], start=after + 1)
            return Log(task.head, tuple(_numbered(number, entry) for number, entry in entries))

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        with self._lock:
            task = self._tasks.get(key)
            placed = sorted(task.deltas, key=_place) if task else []
            return [batch for batch in placed if _place(batch) >= since]

    @contextmanager
    def fenced(self, context: ContextKey, fence: int) -> Iterator[None]:
        """Keep the context's fence where it is for as long as the block runs; raises LeaseLost where it has moved on.

        For what is written under the fence elsewhere: on DynamoDB both are one transaction.
        """
        with self._lock:
            record = self._contexts.get(context)
            if record is None or record.fence != fence:
                raise LeaseLost("Another holder runs this context now.")
            yield

    def _begin(self, key: ContextKey, context: _Context, holder: str) -> Begun:
        turn = context.running or context.waiting.pop(0)
        context.running, context.interrupted = replace(turn, tries=turn.tries + 1), None
        context.fence += 1
        context.holder, context.until = holder, self._now() + self._lease_seconds
        task = self._tasks[TaskKey(key.owner, turn.task_id)]
        task.head = replace(task.head, fence=context.fence)
        return Begun(Lease(key, context.running, holder, context.fence), task.head)

    def _known(self, context: ContextKey, message_id: str, content_hash: bytes) -> Repeated | None:
        known = self._messages.get((context, message_id))
        return ingress.repeat_of(content_hash, *known) if known else None

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _place(batch: DeltaBatch) -> Cursor:
    return Cursor(batch.generation, batch.fence, batch.first)


def _pack(event: Event) -> bytes:
    return stream_response(event).SerializeToString()


def _numbered(generation: int, entry: _Entry) -> Numbered:
    asked = Message.FromString(entry.asked) if entry.asked is not None else None
    return Numbered(generation, unwrap(StreamResponse.FromString(entry.event)), asked, entry.key, entry.request)
