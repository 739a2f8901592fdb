"""Rings for each commit that somebody may want to be told of by push notifications: after it, and never in its way."""

from collections.abc import Sequence

from aion_core.ports import (
    Begun,
    Busy,
    ContextKey,
    Cursor,
    DeltaBatch,
    Ended,
    FollowUp,
    Head,
    Held,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Overdue,
    PushBells,
    Repeated,
    TaskKey,
    TaskStore,
    Waiting,
    WhenBusy,
)
from aion_core.protocol.types import Event, Task
from aion_core.tasks.notifications import CommitNotifier


class RingingStore:
    """`ports.TaskStore` over another one; a task to which nobody listens notices nothing of it."""

    def __init__(self, store: TaskStore, bells: PushBells) -> None:
        self._store, self._notify = store, CommitNotifier(bells)

    # ── What is rung for ──────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        outcome = await self._store.create(new, holder=holder, when_busy=when_busy)
        if isinstance(outcome, Begun | Waiting):
            await self._notify.committed(outcome.head)
        return outcome

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> Begun | Waiting | Busy | Repeated:
        """See `ports.TaskStore.follow_up`."""
        outcome = await self._store.follow_up(follow_up, holder=holder, when_busy=when_busy)
        if isinstance(outcome, Begun | Waiting):
            await self._notify.committed(outcome.head)
        return outcome

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | Held | None:
        """See `ports.TaskStore.begin`."""
        outcome = await self._store.begin(context, holder=holder)
        if isinstance(outcome, Begun):
            await self._notify.begun(outcome)
        return outcome

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """See `ports.TaskStore.append`; its bell is rung beside what comes next."""
        after = await self._store.append(lease, head, event, key=key)
        self._notify.appended(after, event)
        return after

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, go_on: bool = False, snapshot: Task | None = None
    ) -> Ended:
        """See `ports.TaskStore.finish`."""
        ended = await self._store.finish(lease, head, event, go_on=go_on, snapshot=snapshot)
        await self._notify.committed(ended.head)
        if ended.next is not None:
            await self._notify.begun(ended.next)
        return ended

    async def pause(self, lease: Lease, *, got_on: bool) -> None:
        """See `ports.TaskStore.pause`."""
        await self._store.pause(lease, got_on=got_on)
        await self._notify.settle(TaskKey(lease.context.owner, lease.turn.task_id))

    async def cancel(self, head: Head, event: Event) -> Ended:
        """See `ports.TaskStore.cancel`."""
        ended = await self._store.cancel(head, event)
        await self._notify.committed(ended.head)
        return ended

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        return await self._store.known(context, message_id, content_hash, idempotency_key=idempotency_key)

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        return self._store.renew(lease)

    def holds(self, lease: Lease) -> bool:
        """See `ports.TaskStore.holds`."""
        return self._store.holds(lease)

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        await self._store.append_deltas(key, batch)

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        return await self._store.head(key)

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        return await self._store.log(key, after=after)

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.every_event`."""
        return await self._store.every_event(key, after=after)

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        return await self._store.deltas(key, since=since)

    async def overdue(self, *, limit: int) -> Sequence[Overdue]:
        """See `ports.TaskStore.overdue`."""
        return await self._store.overdue(limit=limit)

    async def claim(self, overdue: Overdue) -> bool:
        """See `ports.TaskStore.claim`."""
        return await self._store.claim(overdue)
