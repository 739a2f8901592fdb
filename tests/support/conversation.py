"""Context of a task store, with short methods for the contract tests."""

import random
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from aion_core.engine.admission import messages
from aion_core.engine.admission.messages import FollowUp, NewTask
from aion_core.engine.outcomes import Interrupted, TurnFinished, TurnQueued, TurnStarted
from aion_core.engine.records import Head
from aion_core.engine.task import projection, states, timestamps, updates
from aion_core.engine.task_store import TaskStore
from aion_core.engine.timers import ExpiredTimer
from aion_core.errors import PendingInput
from aion_core.protocol.types import Message, Part, Role, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table import item, keys
from aion_core.table.keys import ContextKey, TaskKey, TimerOf
from aion_core.table.reads import Reads
from tests.support.clock import ManualClock
from tests.support.stores import LEASE_SECONDS, new_owner

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED
CANCELED = TaskState.TASK_STATE_CANCELED
FAILED = TaskState.TASK_STATE_FAILED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED

MANY = 1000
"""Limit above the number of timers that a test run leaves in a shard of the timer index."""


class StoreConversation:
    """Context in a task store; its message `m-1` starts the task `t-m-1`, whose first turn is `turn-m-1`."""

    def __init__(self, store: TaskStore, clock: ManualClock, context: ContextKey | None = None) -> None:
        self.store, self.clock = store, clock
        self.context = context or ContextKey(new_owner(), "echo", "c-1")
        self.tasks: list[str] = []
        """Ids of the started tasks."""
        self.accepted: list[tuple[str, str]] = []
        """Task id and message id of each stored message to a task."""

    # ── Clients ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def message(
        self,
        message_id: str,
        text: str = "hi",
        *,
        task_id: str = "",
        context_is_new: bool = False,
        request: Mapping[str, Any] | None = None,
        idempotency_key: str = "",
    ) -> NewTask:
        """Return a message to start a task with `create`."""
        task_id = task_id or f"t-{message_id}"
        return messages.new_task(
            Message(message_id=message_id, role=Role.ROLE_USER, parts=[Part(text=text)]),
            self.context,
            task_id=task_id,
            turn_id=f"turn-{task_id.removeprefix('t-')}",
            at=self.clock.now(),
            context_is_new=context_is_new,
            request=request,
            idempotency_key=idempotency_key,
        )

    async def starts(self, message_id: str = "m-1", *, holder: str = "holder-1", **options: Any) -> TurnStarted:
        """Create a task and begin its turn at once."""
        outcome = await self.store.create(self.message(message_id, **options), holder=holder)
        assert isinstance(outcome, TurnStarted), outcome
        self.tasks.append(outcome.head.key.task_id)
        return outcome

    async def waits(self, message_id: str, *, holder: str | None = None, **options: Any) -> TurnQueued:
        """Create a task whose turn waits in the queue."""
        outcome = await self.store.create(self.message(message_id, **options), holder=holder)
        assert isinstance(outcome, TurnQueued), outcome
        self.tasks.append(outcome.head.key.task_id)
        return outcome

    async def asks(self, message_id: str = "m-1") -> Head:
        """Create a task, and end its turn in the state input-required."""
        return (await self.ends(await self.starts(message_id), INPUT_REQUIRED, "which?")).head

    async def more(
        self, head: Head, message_id: str, text: str = "more", *, turn_id: str = "", task: Task | None = None
    ) -> FollowUp:
        """Return a further message to an existing task, as an argument for `follow_up`."""
        return messages.follow_up(
            Message(message_id=message_id, role=Role.ROLE_USER, task_id=head.key.task_id, parts=[Part(text=text)]),
            head,
            task or await self.task(head.key.task_id),
            turn_id=turn_id or f"turn-{message_id}",
            at=self.clock.now(),
            request={"trace": {"id": message_id}},
        )

    async def queues(self, task_id: str, message_id: str) -> FollowUp:
        """Send a message to a running task; the message is queued."""
        follow_up = await self.more(await self.head(task_id), message_id)
        outcome = await self.store.follow_up(follow_up, holder="holder-2")
        assert isinstance(outcome, TurnQueued), outcome
        return follow_up

    async def cancels(self, task_id: str) -> TurnFinished:
        """Cancel a task."""
        head = await self.head(task_id)
        return await self.store.cancel(head, self.canceled(head))

    # ── Runners ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def says(self, head: Head, state: TaskState = WORKING, text: str = "well") -> TaskStatusUpdateEvent:
        """Return an event with an agent's message and this state."""
        status = timestamps.status_at(state, self.clock.now())
        said = Message(message_id=f"a-{text[:20]}-{random.getrandbits(64)}", role=Role.ROLE_AGENT)
        said.parts.append(Part(text=text))
        status.message.CopyFrom(said)
        return TaskStatusUpdateEvent(task_id=head.key.task_id, context_id=head.context.context_id, status=status)

    def canceled(self, head: Head) -> TaskStatusUpdateEvent:
        """Return the event of a cancellation."""
        return updates.canceled(head, self.clock.now(), "No longer wanted.")

    async def begins(self, holder: str = "holder-2") -> TurnStarted:
        """Begin the next turn of the context."""
        outcome = await self.store.begin(self.context, holder=holder)
        assert isinstance(outcome, TurnStarted), outcome
        return outcome

    async def ends(
        self, begun: TurnStarted, state: TaskState = COMPLETED, text: str = "done", *, run_next: bool = False
    ) -> TurnFinished:
        """End the turn; its task then has this state."""
        said = self.says(begun.head, state, text)
        return await self.store.finish(begun.lease, begun.head, said, has_time=lambda: run_next)

    # ── Stored state ──────────────────────────────────────────────────────────────────────────────────────────────────

    def key(self, task_id: str) -> TaskKey:
        """Return the key of a task of the context."""
        return TaskKey(self.context.owner, task_id)

    async def head(self, task_id: str) -> Head:
        """Return the head of an existing task."""
        head = await self.store.head(self.key(task_id))
        assert head is not None, task_id
        return head

    async def task(self, task_id: str) -> Task:
        """Return the task folded from its log."""
        log = await self.store.log(self.key(task_id))
        assert log is not None, task_id
        return projection.fold(log.events)

    async def said(self, task_id: str) -> list[str]:
        """Return the ids of the client's messages in the task, in order."""
        return [said.message_id for said in (await self.task(task_id)).history if said.role == Role.ROLE_USER]

    async def state(self, task_id: str) -> str:
        """Return the task's state as text."""
        return states.state_name((await self.head(task_id)).state)

    async def is_expired(self) -> bool:
        """Return True if the timer index has an expired timer of the context."""
        return any(
            expired_timers.context == self.context for expired_timers in await self.store.expired_timers(limit=MANY)
        )

    async def _is_indexed(self) -> bool:
        """Return True if the context's shards of the timer index have an expired timer of the context.

        The method reads two shards, while a sweep reads them all.
        """
        store: Any = self.store
        reads = Reads(store._table, self.clock)
        found = [each for kind in TimerOf for each in await reads.expired_timers(self._shard(kind), MANY)]
        return keys.context_key(self.context) in map(item.key_of, found)

    def _shard(self, kind: TimerOf) -> str:
        return keys.timer_shard(self.context, kind)

    # ── Invariants ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def comes_to_rest(self) -> None:
        """Check for forgotten work: each unfinished turn has a timer, and the timers alone finish all work.

        No wake-up message is handled from here on. Every log is complete in the end, without a duplicate message.
        """
        for step in range(60):
            self.clock.move(LEASE_SECONDS * 2 + 1)
            heads = [await self.head(task_id) for task_id in self.tasks]
            at_work = [head.key.task_id for head in heads if head.state not in states.TERMINAL_OR_INTERRUPTED]
            asking = [head for head in heads if head.state in states.INTERRUPTED]
            in_index = await self._is_indexed() if not step else None
            expired_timers = bool(await self.store.claim(ExpiredTimer(self.context, self.clock.now())))
            assert in_index in (None, expired_timers)
            if asking:
                assert not expired_timers, "a context that waits for its client is settled"
                assert len(asking) == 1, "only one task of a context asks"
                probe = self.message(f"probe-{random.getrandbits(64)}")
                outcome = await self.store.create(probe, holder="holder-9")
                assert outcome == Interrupted(asking[0].key.task_id)
                await self.store.cancel(asking[0], self.canceled(asking[0]))
                continue
            if not at_work:
                assert not expired_timers, "nothing is left to do"
                break
            assert expired_timers, f"{at_work} would never go on"
            begun = await self.begins("holder-of-rest")
            assert begun.head.key.task_id in at_work
            assert begun.lease.turn.message_generation, "the message is recorded"
            try:
                await self.ends(begun)
            except PendingInput:
                await self.ends(begun, WORKING)
        else:
            raise AssertionError("It does not come to rest.")
        assert await self.store.begin(self.context, holder="holder-9") is None
        for task_id in self.tasks:
            log = await self.store.log(self.key(task_id))
            assert log is not None
            assert [entry.generation for entry in log.events][-1] == log.head.generation
            said = await self.said(task_id)
            assert len(said) == len(set(said))
        await self._is_free()

    async def _is_free(self) -> None:
        message_id = f"last-{random.getrandbits(64)}"
        begun = await self.store.create(self.message(message_id), holder="holder-9")
        assert isinstance(begun, TurnStarted), "the context is free"
        await self.ends(begun)


def of(conversation: StoreConversation, **other: str) -> StoreConversation:
    """Return a second context in the same store; `other` replaces its owner, its agent or its context id."""
    return StoreConversation(conversation.store, conversation.clock, replace(conversation.context, **other))
