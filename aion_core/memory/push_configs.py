"""Push configs and their deliveries in a dict, with the promises of `ports.PushConfigs`; the tasks' store holds them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from aion_core.errors import TaskNotFound
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Claim, Clock, Delivery, Head, OverduePush, PushConfig, TaskKey
from aion_core.push import schedule
from aion_core.tasks import deliveries
from aion_core.tasks.contexts import CLAIM_TERMS


class MemoryPushConfigs:
    """`ports.PushConfigs` for one process, of the tasks in one store."""

    def __init__(self, tasks: MemoryTaskStore, clock: Clock, *, lease_seconds: float = 30.0) -> None:
        self._tasks, self._clock = tasks, clock
        self._soon = timedelta(seconds=lease_seconds)

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """See `ports.PushConfigs.put`."""
        delivery = self._tasks.listen(task, config)
        if delivery is None:
            raise TaskNotFound(task.task_id)
        return delivery

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """See `ports.PushConfigs.get`."""
        with self._tasks.listeners(task) as listeners:
            return listeners.configs.get(config_id)

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """See `ports.PushConfigs.all`."""
        with self._tasks.listeners(task) as listeners:
            return sorted(listeners.configs.values(), key=lambda config: config.id)

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """See `ports.PushConfigs.delete`."""
        with self._tasks.listeners(task) as listeners:
            listeners.configs.pop(config_id, None)
            listeners.deliveries.pop(config_id, None)

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """See `ports.PushConfigs.deliveries`."""
        with self._tasks.listeners(task) as listeners:
            return sorted(listeners.deliveries.values(), key=lambda delivery: delivery.config_id)

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """See `ports.PushConfigs.claim`."""
        with self._tasks.listeners(delivery.task) as listeners:
            if not listeners.stands(delivery):
                return None
            claimed = listeners.keep(deliveries.claimed(delivery, until))
            return Claim(claimed, listeners.configs[delivery.config_id])

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """See `ports.PushConfigs.advance`."""
        return self._change(claim, deliveries.advanced(claim.delivery, cursor, until))

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """See `ports.PushConfigs.settle`."""
        self._change(claim, deliveries.settled(claim.delivery, cursor, delivered=delivered, due_at=due_at))

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """See `ports.PushConfigs.fail`."""
        self._change(claim, deliveries.failed(claim.delivery, failure, next_at, due_at))

    async def bury(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """See `ports.PushConfigs.bury`."""
        return self._change(claim, deliveries.buried(claim.delivery, cursor, failure, until))

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """See `ports.PushConfigs.disable`."""
        self._change(claim, deliveries.disabled(claim.delivery, failure))

    async def clear(self, task: TaskKey, generation: int) -> None:
        """See `ports.PushConfigs.clear`."""
        with self._tasks.listeners(task) as listeners:
            listeners.due.pop(generation, None)

    async def nobody_listens(self, head: Head) -> None:
        """See `ports.PushConfigs.nobody_listens`."""
        self._tasks.desert(head)

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """See `ports.PushConfigs.redrive`."""
        with self._tasks.listeners(task) as listeners:
            before = listeners.deliveries.get(config_id)
            if before is None:
                return None
            return listeners.keep(deliveries.redriven(before, self._clock.now()))

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[OverduePush]:
        """See `ports.PushConfigs.overdue`."""
        now = self._clock.now()
        found = [overdue for overdue in self._tasks.pushes_due() if overdue.at <= now]
        return schedule.by_turns(found, limit)

    async def claim_overdue(self, overdue: OverduePush) -> bool:
        """See `ports.PushConfigs.claim_overdue`."""
        now = self._clock.now()
        again = now + self._soon * CLAIM_TERMS
        with self._tasks.listeners(overdue.task) as listeners:
            if overdue.generation:
                at = listeners.due.get(overdue.generation)
                if at is None or at > now:
                    return False
                listeners.due[overdue.generation] = again
                return True
            delivery = listeners.deliveries.get(overdue.config_id)
            if delivery is None or delivery.due_at is None or delivery.due_at > now:
                return False
            # It is as it was for whoever delivers: only who looks after it has changed.
            listeners.deliveries[overdue.config_id] = replace(delivery, due_at=again)
            return True

    def _change(self, claim: Claim, after: Delivery) -> Claim:
        with self._tasks.listeners(after.task) as listeners:
            if not listeners.stands(claim.delivery):
                raise deliveries.lost()
            return Claim(listeners.keep(after), claim.config)
