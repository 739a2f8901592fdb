"""Observer of the table's commits. It records changes of leases, events, push configs and timers for the invariants."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Lease
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Message
from aion_core.table import keys
from aion_core.table.item import LAST, Item, Key
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.schema import TIMERS
from aion_core.table.writes import ConditionCheck, Delete
from aion_core.table.writes import Write as TableWrite
from tests.simulation.history import Entry, Hold, Listening, Write, plain
from tests.simulation.loop import BEGINNING, at_once
from tests.simulation.table import SimOperation

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import SimWorld

NEXT_TURN_SECONDS = 45.0
"""Minimum remaining time of a process for the next turn; otherwise another process runs it."""
LEAVES_LEASE = ("create", "begin")
"""Operations that replace an expired lease; every other operation ends the lease that it replaces."""


class Watch:
    """Observer that knows the current items of contexts and timers, and records each commit in the history."""

    def __init__(self, world: "SimWorld") -> None:
        self._world, self._history = world, world.history
        self._contexts: dict[ContextKey, Item] = {}
        self._timers: dict[Key, Item] = {}

    # ── Commits ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def committed(
        self, process: "Process", operation: SimOperation, writes: Sequence[TableWrite], at: float, asked: float
    ) -> None:
        """Record the writes of the process's operation, which were made at one time and requested at another."""
        lease = next((argument for argument in operation.arguments[:1] if isinstance(argument, Lease)), None)
        if lease is not None and operation.method in ("append", "finish", "pause", "suspend"):
            newest = self._history.fence(lease.context)
            self._history.writes.append(Write(at, process.name, operation.method, lease.context, lease.fence, newest))
        if operation.method == "checkpoint":
            turn, state = operation.arguments
            self._world.agent_did(process, turn, "finished", state.position - 1)
        if operation.method == "append_deltas":
            task, batch = operation.arguments
            for number, chunk in enumerate(batch.chunks, start=batch.first):
                place = (task, f"{batch.generation}.{batch.fence}.{number}")
                if self._history.streamed.setdefault(place, chunk) != chunk:
                    self._history.surprises.append(f"I6: {place} was stored as {chunk} after another.")
        tasks: dict[TaskKey, None] = {}
        for write in writes:
            if isinstance(write, ConditionCheck):
                continue
            key, item = write.key, self._world.table.get_blocking(write.key)
            self.follow(key, item)
            if key.partition.startswith("CONTEXT#") and item is not None:
                self._lease(process, operation, keys.context_of(key), item, at, asked)
            elif key.partition.startswith(keys.TASKS):
                tasks[keys.task_of(key)] = None
                if key.sort.startswith("PUSH#"):
                    self._subscriber(process, operation, key, is_deleted=isinstance(write, Delete), at=at)
        for task in tasks:
            self._events(process, operation, task, at)

    def follow(self, key: Key, item: Item | None) -> None:
        """Record the current item of a key; None after its deletion."""
        self._timers.pop(key, None)
        if item is not None and TIMERS.sort in item:
            self._timers[key] = item
        if key.partition.startswith("CONTEXT#"):
            context = keys.context_of(key)
            self._contexts.pop(context, None)
            if item is not None:
                self._contexts[context] = item

    def _lease(
        self, process: "Process", operation: SimOperation, context: ContextKey, item: Item, at: float, asked: float
    ) -> None:
        """Record the holder of the context's lease, and its expiry."""
        fence, turn = item.get("fence", 0), item.get("running")
        is_held = turn is not None and item.get("holder", "") != ""
        holds = [hold for hold in self._history.holds if hold.context == context]
        for hold in holds:
            if hold.fence == fence and is_held:
                hold.until = _seconds(item["until"])
            elif hold.over is None and operation.method not in LEAVES_LEASE:
                hold.over = at
        if turn is not None and is_held and all(hold.fence != fence for hold in holds):
            self._world.trace(process.name, f"has the lease {fence} of {turn['id']}")
            # Use the remaining time at the request: a process that is frozen during the request has decided before.
            until, left = _seconds(item["until"]), process.remaining() + self._world.loop.now - asked
            if operation.method == "finish" and left < NEXT_TURN_SECONDS and not self._world.skewed:
                self._history.surprises.append(f"I16: {process.name} began another turn {left:.0f} s before its end.")
            self._history.holds.append(
                Hold(at, process.name, context, turn["id"], turn["task_id"], fence, turn["tries"], until)
            )
            self._world.lease_taken(process)

    def _subscriber(
        self, process: "Process", operation: SimOperation, key: Key, *, is_deleted: bool, at: float
    ) -> None:
        """Record the registration, deletion or claim of a push config."""
        history, task, config_id = self._history, keys.task_of(key), keys.push_config_of(key.sort)
        if is_deleted:
            history.deleted[task, config_id] = at
        elif operation.method in ("claim", "advance", "give_up"):
            history.claims[process.name, task, config_id] = at
        elif operation.method in ("create", "follow_up", "put"):
            # Record the first event of a new config only, because a replaced config continues at its position.
            config = operation.arguments[1] if operation.method == "put" else operation.arguments[0].push
            assert isinstance(config, PushConfig)
            history.registered[task, config_id] = at
            if all((each.task, each.config.id) != (task, config_id) for each in history.listenings):
                item, entries = self._world.table.get_blocking(key), history.log.get(task, ())
                assert item is not None
                after, known = item["after"], sum(entry.at <= operation.at for entry in entries)
                if not known <= after <= len(entries):
                    history.surprises.append(f"I8: {config_id} of {task.task_id} gets events from {after} on.")
                history.listenings.append(Listening(at, task, config, after))

    def _events(self, process: "Process", operation: SimOperation, task: TaskKey, at: float) -> None:
        """Record the task's new events."""
        head = at_once(self._world.log.head(task))
        if head is None:
            return
        entries = self._history.log.setdefault(task, [])
        self._history.context_of[task] = head.context
        if head.generation <= len(entries):
            return
        try:
            log = at_once(self._world.log.every_event(task, after=len(entries)))
        except StoreCorrupt as error:
            self._history.surprises.append(f"I26: {task.task_id} cannot be read after a commit: {error}")
            return
        state = entries[-1].state if entries else None
        for numbered in log.events:
            status = getattr(numbered.event, "status", None)
            state = status.state if status is not None else state
            assert state is not None
            entries.append(
                Entry(at, process.name, operation.method, numbered, state, plain(numbered.event), self._world.loop.now)
            )
        self._history.resting[task] = at

    # ── Current state of the table ────────────────────────────────────────────────────────────────────────────────────

    def promised(self) -> Iterator[str]:
        """Yield a sentence for each timer, running turn and queued turn that is still in the table."""
        for key, item in self._timers.items():
            yield f"{key.partition} {key.sort} has a timer at {item[TIMERS.sort]}"
        for context, item in self._contexts.items():
            if "running" in item:
                yield f"{context.context_id} runs {item['running']['id']}, whose lease nobody gave back"
            if item.get("waiting") and "interrupted" not in item:
                yield f"{context.context_id} has turns that wait: {[turn['id'] for turn in item['waiting']]}"

    def waiting(self) -> int:
        """Return the number of contexts whose turns wait for a worker, and none of whose turns runs."""
        waits = keys.TimerOf.WAIT
        return sum(1 for item in self._contexts.values() if str(item.get(TIMERS.partition, "")).startswith(waits))

    def waiting_tasks(self) -> int:
        """Return the number of tasks whose notifications wait for a worker."""
        waits = keys.PushTimerOf.WAIT
        return len(
            {keys.task_of(key) for key, item in self._timers.items() if item[TIMERS.partition].startswith(waits)}
        )

    def fence(self, context: ContextKey) -> int:
        """Return the fence of the context's newest lease."""
        return int(self._contexts.get(context, {}).get("fence", 0))

    def waiting_messages(self, task: TaskKey) -> set[str]:
        """Return the ids of the task's waiting messages."""
        first, last = keys.queued_message_key(task, ""), keys.queued_message_key(task, LAST)
        items = at_once(self._world.reads.query(first.partition, first.sort, last.sort))
        return {Message.FromString(item["message"]).message_id for item in items if "message" in item}


def _seconds(milliseconds: int) -> float:
    """Return the loop's time for a stored time."""
    return milliseconds / 1000 - BEGINNING.timestamp()
