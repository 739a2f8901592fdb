"""The task log in a dict, with the promises of `ports.TaskStore`; it lives as long as the process."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from aion_core.errors import LeaseLost, MoreAsked
from aion_core.memory.records import Entry, Listeners, TaskRecord
from aion_core.ports import (
    MAX_WAITING,
    Begun,
    Busy,
    Clock,
    ContextKey,
    Cursor,
    Delivery,
    DeltaBatch,
    Ended,
    FollowUp,
    Head,
    Held,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    Overdue,
    OverduePush,
    PushConfig,
    Repeated,
    TaskKey,
    Turn,
    Waiting,
    WhenBusy,
)
from aion_core.protocol.types import Event, Task
from aion_core.tasks import ingress, lifecycle, pushed
from aion_core.tasks.contexts import CLAIM_TERMS, ContextRecord, moment, turn_to_begin


class MemoryTaskStore:
    """`ports.TaskStore` for one process; safe to call from several threads."""

    def __init__(self, clock: Clock, *, lease_seconds: float = 30.0) -> None:
        self._clock, self._lease = clock, int(lease_seconds * 1000)
        self._lock = threading.Lock()
        self._tasks: dict[TaskKey, TaskRecord] = {}
        self._contexts: dict[ContextKey, ContextRecord] = {}
        self._due: dict[ContextKey, int] = {}
        self._messages: dict[tuple[ContextKey, str], tuple[str, bytes]] = {}

    # ── What comes in ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        with self._lock:
            for place in _message_places(new):
                if place in self._messages:
                    return ingress.repeat_of(new.content_hash, *self._messages[place])
            record = self._context(new.context)
            if record.interrupted is not None:
                return Interrupted(record.interrupted)
            if record.busy and when_busy is not WhenBusy.ENQUEUE:
                return Busy(record.at_work)
            if len(record.waiting) >= MAX_WAITING:
                raise ingress.too_many_wait()
            head = ingress.first_head(new)
            first, *others = new.events
            log = [Entry.of(first, request=new.request), *(Entry.of(event) for event in others)]
            self._tasks[new.key] = TaskRecord(head, log)
            if new.push is not None:
                head = self._listen(new.key, new.push, after=0, due=False)
                for generation, event in enumerate(new.events, start=1):
                    self._let_be_due(new.key, generation, event)
            for place in _message_places(new):
                self._messages[place] = (new.key.task_id, new.content_hash)
            if holder is not None and not record.busy:
                return self._begin(new.context, new.turn, holder)
            self._wait(new.context, new.turn)
            return Waiting(head, record.held_until())

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated:
        """See `ports.TaskStore.follow_up`."""
        with self._lock:
            key, head, turn = follow_up.head.context, follow_up.head, follow_up.turn
            place = (key, follow_up.message_id)
            if place in self._messages:
                return ingress.repeat_of(follow_up.content_hash, *self._messages[place])
            record, task = self._context(key), self._tasks[head.key]
            asks = head.state in lifecycle.INTERRUPTED
            takes = asks or (when_busy is WhenBusy.INTERRUPT and record.runs(head.key.task_id))
            if asks and record.running is not None:
                raise ingress.another_runs()
            if task.head.state in lifecycle.RESTING if not takes else task.head.generation != head.generation:
                raise ingress.no_longer_asked()
            if not takes and when_busy is WhenBusy.REJECT:
                return Busy(head.key.task_id)
            if not takes and len(record.waiting) >= MAX_WAITING:
                raise ingress.too_many_wait()
            if follow_up.push is not None:
                pushed.check_room(task.listeners.configs, follow_up.push)
            self._messages[place] = (head.key.task_id, follow_up.content_hash)
            entry = Entry.of(follow_up.event, asked=follow_up.asked, request=follow_up.request)
            if follow_up.push is not None:
                self._listen(head.key, follow_up.push, after=task.head.generation)
            if not takes:
                task.asked[turn.id] = entry
                self._wait(key, replace(turn, asked=0))
                return Waiting(task.head, record.held_until())
            task.log.append(entry)
            task.head = replace(lifecycle.advance(task.head, follow_up.event), fence=record.fence + 1)
            self._let_be_due(head.key, task.head.generation, follow_up.event)
            record = replace(record, running=None, holder="", until=0, interrupted=None)
            if holder is not None:
                self._contexts[key] = record
                return self._begin(key, turn, holder)
            self._contexts[key] = replace(
                record, fence=record.fence + 1, line=record.line + 1, waiting=(turn, *record.waiting)
            )
            self._due[key] = self._soon()
            return Waiting(task.head)

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        with self._lock:
            for place in _places(context, message_id, idempotency_key):
                if place in self._messages:
                    return ingress.repeat_of(content_hash, *self._messages[place])
            return None

    # ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | Held | None:
        """See `ports.TaskStore.begin`."""
        with self._lock:
            turn = turn_to_begin(self._context(context), self._now())
            return self._begin(context, turn, holder) if isinstance(turn, Turn) else turn

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        with self._lock:
            record = self._context(lease.context)
            if not _is_held(record, lease):
                return False
            self._contexts[lease.context] = replace(record, until=self._soon())
            self._due[lease.context] = self._soon()
            return True

    def holds(self, lease: Lease) -> bool:
        """See `ports.TaskStore.holds`."""
        with self._lock:
            return self._tasks[_task_of(lease.context, lease.turn)].head.fence == lease.fence

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """See `ports.TaskStore.append`."""
        with self._lock:
            return self._append(lease, head, event, key=key)

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, go_on: bool = False, snapshot: Task | None = None
    ) -> Ended:
        """See `ports.TaskStore.finish`."""
        with self._lock:
            record, task = self._context(lease.context), self._tasks[head.key]
            self._check(lease, head)
            after = lifecycle.advance(task.head, event)
            if after.state in lifecycle.TERMINAL and record.waits_for(head.key.task_id):
                raise MoreAsked("A message waits for this task.")
            if after.state not in lifecycle.RESTING and not record.waits_for(head.key.task_id):
                raise ingress.nothing_left_to_do()
            after = self._append(lease, head, event)
            if snapshot is not None:
                task.snapshots[after.generation] = snapshot.SerializeToString()
            asks = after.state in lifecycle.INTERRUPTED
            record = replace(
                record, running=None, holder="", until=0, interrupted=head.key.task_id if asks else record.interrupted
            )
            self._contexts[lease.context] = record
            self._due.pop(lease.context, None)
            if asks or not record.waiting:
                return Ended(after)
            if go_on:
                return Ended(after, next=self._begin(lease.context, record.waiting[0], lease.holder))
            self._due[lease.context] = self._soon()
            return Ended(after, waiting=True)

    async def pause(self, lease: Lease, *, got_on: bool) -> None:
        """See `ports.TaskStore.pause`."""
        with self._lock:
            record = self._context(lease.context)
            if not _is_held(record, lease):
                raise LeaseLost("Another holder runs this context now.")
            turn = replace(lease.turn, tries=0, hops=lease.turn.hops + 1) if got_on else lease.turn
            # Nobody's lease, by anybody's clock: one that is behind must not take it for alive.
            self._contexts[lease.context] = replace(record, running=turn, holder="", until=0)
            self._due[lease.context] = self._soon()

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        with self._lock:
            self._tasks[key].deltas.append(batch)

    async def cancel(self, head: Head, event: Event) -> Ended:
        """See `ports.TaskStore.cancel`."""
        with self._lock:
            task, record, task_id = self._tasks[head.key], self._context(head.context), head.key.task_id
            if task.head != head:
                raise ingress.no_longer_asked()
            after = lifecycle.advance(head, event)
            waiting = record.without(task_id)
            # Who only waits writes nothing: a turn of another task, which runs, goes on under its fence.
            if record.running is None or record.runs(task_id):
                record = replace(record, fence=record.fence + 1, running=None, holder="", until=0)
                self._due.pop(head.context, None)
            interrupted = None if record.interrupted == task_id else record.interrupted
            self._contexts[head.context] = replace(
                record, line=record.line + 1, waiting=waiting, interrupted=interrupted
            )
            task.log.append(Entry.of(event))
            task.head = replace(after, fence=max(record.fence, head.fence))
            self._let_be_due(head.key, after.generation, event)
            left = bool(waiting) and record.running is None and interrupted is None
            if left:
                self._due[head.context] = self._soon()
            return Ended(task.head, waiting=left)

    # ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────

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
            base = after or max(task.snapshots, default=0)
            entries = task.entries(base)
            if base and not after:
                entries.insert(0, Numbered(base, Task.FromString(task.snapshots[base])))
            return Log(task.head, tuple(entries))

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.every_event`."""
        with self._lock:
            task = self._tasks.get(key)
            return Log(task.head, tuple(task.entries(after))) if task else None

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        with self._lock:
            task = self._tasks.get(key)
            return task.deltas_since(since) if task else []

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[Overdue]:
        """See `ports.TaskStore.overdue`."""
        with self._lock:
            now = self._now()
            found = sorted((at, number) for number, at in enumerate(self._due.values()) if at <= now)
            contexts = list(self._due)
            return [Overdue(contexts[number], moment(at)) for at, number in found[:limit]]

    async def claim(self, overdue: Overdue) -> bool:
        """See `ports.TaskStore.claim`."""
        with self._lock:
            at = self._due.get(overdue.context)
            if at is None or at > self._now():
                return False
            self._due[overdue.context] = self._now() + self._lease * CLAIM_TERMS
            return True

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def fenced(self, context: ContextKey, fence: int) -> Iterator[None]:
        """Keep the context's fence where it is for as long as the block runs; raises LeaseLost where it has moved on.

        For what is written under the fence elsewhere: on DynamoDB both are one transaction.
        """
        with self._lock:
            if context not in self._contexts or self._contexts[context].fence != fence:
                raise LeaseLost("Another holder runs this context now.")
            yield

    def listen(self, key: TaskKey, config: PushConfig) -> Delivery | None:
        """Keep the task's push config as `ports.PushConfigs.put` does; None where there is no such task."""
        with self._lock:
            if key not in self._tasks:
                return None
            self._listen(key, config, after=self._tasks[key].head.generation)
            return self._tasks[key].listeners.deliveries[config.id]

    def desert(self, head: Head) -> None:
        """Note that nobody listens to the task any more, as `ports.PushConfigs.nobody_listens` does."""
        with self._lock:
            task = self._tasks.get(head.key)
            if task is not None and task.head.push_epoch == head.push_epoch:
                task.head = pushed.deserted(task.head)

    @contextmanager
    def listeners(self, key: TaskKey) -> Iterator[Listeners]:
        """Keep who listens to the task as they are for as long as the block runs, but for what the block changes."""
        with self._lock:
            task = self._tasks.get(key)
            yield task.listeners if task is not None else Listeners()

    def pushes_due(self) -> Sequence[OverduePush]:
        """Return what push notifications are promised of all tasks, and when."""
        with self._lock:
            return [
                promised
                for key, task in self._tasks.items()
                for promised in (
                    *(OverduePush(key, at, generation) for generation, at in task.listeners.due.items()),
                    *(
                        OverduePush(key, delivery.due_at, config_id=config_id)
                        for config_id, delivery in task.listeners.deliveries.items()
                        if delivery.due_at is not None
                    ),
                )
            ]

    def _listen(self, key: TaskKey, config: PushConfig, *, after: int, due: bool = True) -> Head:
        task = self._tasks[key]
        due_at = moment(self._soon()) if due else None
        task.listeners.add(key, config, after=after, due_at=due_at)
        task.head = pushed.listening(task.head, config)
        return task.head

    def _let_be_due(self, key: TaskKey, generation: int, event: Event) -> None:
        if pushed.listened_to(self._tasks[key].head, event):
            self._tasks[key].listeners.due[generation] = moment(self._soon())

    def _begin(self, key: ContextKey, turn: Turn, holder: str) -> Begun:
        record = self._context(key)
        task = self._tasks[_task_of(key, turn)]
        fence = record.fence + 1
        waiting = tuple(waiting for waiting in record.waiting if waiting.id != turn.id)
        line = record.line + (len(waiting) != len(record.waiting))
        if not turn.asked:
            # The message has waited for a task at work: now it is taken in.
            entry = task.asked.pop(turn.id)
            event = ingress.at_work(task.head, self._clock.now())
            task.log.append(replace(entry, event=Entry.of(event).event))
            task.head = lifecycle.advance(task.head, event)
            self._let_be_due(task.head.key, task.head.generation, event)
            turn = replace(turn, asked=task.head.generation)
        turn = replace(turn, tries=turn.tries + 1)
        task.head = replace(task.head, fence=fence)
        self._contexts[key] = ContextRecord(fence, line, holder, self._soon(), turn, waiting, record.interrupted)
        self._due[key] = self._soon()
        return Begun(Lease(key, turn, holder, fence), task.head)

    def _append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        self._check(lease, head)
        task = self._tasks[head.key]
        task.head = lifecycle.advance(task.head, event)
        task.log.append(Entry.of(event, key=key))
        self._let_be_due(head.key, task.head.generation, event)
        return task.head

    def _check(self, lease: Lease, head: Head) -> None:
        task = self._tasks[head.key]
        # Who has begun to listen meanwhile is no reason to refuse: the event is due to them too.
        head = replace(head, push_epoch=task.head.push_epoch, push_events=task.head.push_events)
        if task.head != replace(head, fence=lease.fence) or task.head.state in lifecycle.TERMINAL:
            raise LeaseLost("Another holder runs this context now.")

    def _wait(self, key: ContextKey, turn: Turn) -> None:
        record = self._context(key)
        self._contexts[key] = replace(record, line=record.line + 1, waiting=(*record.waiting, turn))
        if record.interrupted is None:
            # Behind a question it is due when that is answered.
            self._due.setdefault(key, self._soon())

    def _context(self, key: ContextKey) -> ContextRecord:
        return self._contexts.setdefault(key, ContextRecord())

    def _now(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def _soon(self) -> int:
        return self._now() + self._lease


def _is_held(record: ContextRecord, lease: Lease) -> bool:
    return record.fence == lease.fence and record.holder == lease.holder


def _message_places(new: NewTask) -> list[tuple[ContextKey, str]]:
    return _places(new.context, new.message_id, new.idempotency_key)


def _places(context: ContextKey, message_id: str, idempotency_key: str) -> list[tuple[ContextKey, str]]:
    places = [(context, message_id)]
    if idempotency_key:
        places.insert(0, (replace(context, context_id=""), idempotency_key))
    return places


def _task_of(context: ContextKey, turn: Turn) -> TaskKey:
    return TaskKey(context.owner, turn.task_id)
