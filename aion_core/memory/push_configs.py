"""Push configs and their deliveries in a dict, with the promises of `ports.PushConfigs`; the tasks' store holds them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from uuid_utils.compat import uuid7

from aion_core.errors import ClaimLost, TaskNotFound
from aion_core.ports import Claim, Clock, Delivery, OverduePush, PushConfig, TaskKey
from aion_core.tasks import pushed
from aion_core.tasks.contexts import CLAIM_TERMS

if TYPE_CHECKING:
    from aion_core.memory.task_store import MemoryTaskStore


@dataclass
class Listeners:
    """Who listens to a task, and the events that somebody has yet to be told of."""

    configs: dict[str, PushConfig] = field(default_factory=dict)
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    due: dict[int, datetime] = field(default_factory=dict)
    """When somebody is to look after an event, by its generation."""

    def add(self, task: TaskKey, config: PushConfig, *, after: int, due_at: datetime | None) -> Delivery:
        """Keep the config, in the place of one of its id; raises TooManyPushConfigs."""
        pushed.check_room(self.configs, config)
        before = self.deliveries.get(config.id)
        self.configs[config.id] = config
        after, cursor = (before.after, before.cursor) if before else (after, after)
        return self.keep(Delivery(task, config.id, after, cursor, due_at=due_at))

    def keep(self, delivery: Delivery) -> Delivery:
        """Keep how far a config has come, under a revision of its own."""
        kept = replace(delivery, revision=str(uuid7()))
        self.deliveries[delivery.config_id] = kept
        return kept


class MemoryPushConfigs:
    """`ports.PushConfigs` for one process, of the tasks in one store."""

    def __init__(self, tasks: "MemoryTaskStore", clock: Clock, *, lease_seconds: float = 30.0) -> None:
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
            now = listeners.deliveries.get(delivery.config_id)
            if now is None or now.revision != delivery.revision:
                return None
            claimed = listeners.keep(replace(now, claimed_until=until, due_at=until))
            return Claim(claimed, listeners.configs[delivery.config_id])

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """See `ports.PushConfigs.advance`."""
        return self._change(
            claim,
            cursor=cursor,
            tries=0,
            next_at=None,
            failure="",
            claimed_until=until,
            due_at=until,
        )

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """See `ports.PushConfigs.settle`."""
        success = {"tries": 0, "next_at": None, "failure": ""} if delivered else {}
        self._change(claim, cursor=cursor, claimed_until=None, due_at=due_at, **success)

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """See `ports.PushConfigs.fail`."""
        tries = claim.delivery.tries + 1
        self._change(claim, tries=tries, failure=failure, next_at=next_at, claimed_until=None, due_at=due_at)

    async def bury(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """See `ports.PushConfigs.bury`."""
        before = claim.delivery
        return self._change(
            claim,
            cursor=cursor,
            failure=failure,
            next_at=None,
            dead=before.dead + 1,
            dead_from=before.dead_from or cursor,
            claimed_until=until,
            due_at=until,
        )

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """See `ports.PushConfigs.disable`."""
        self._change(claim, failure=failure, disabled=True, next_at=None, claimed_until=None, due_at=None)

    async def clear(self, task: TaskKey, generation: int) -> None:
        """See `ports.PushConfigs.clear`."""
        with self._tasks.listeners(task) as listeners:
            listeners.due.pop(generation, None)

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """See `ports.PushConfigs.redrive`."""
        with self._tasks.listeners(task) as listeners:
            before = listeners.deliveries.get(config_id)
            if before is None:
                return None
            cursor = before.dead_from - 1 if before.dead_from else before.cursor
            now = self._clock.now()
            return listeners.keep(Delivery(task, config_id, before.after, cursor, due_at=now))

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[OverduePush]:
        """See `ports.PushConfigs.overdue`."""
        now = self._clock.now()
        found = [overdue for overdue in self._tasks.pushes_due() if overdue.at <= now]
        return sorted(found, key=lambda overdue: overdue.at)[:limit]

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

    def _change(self, claim: Claim, **changes: object) -> Claim:
        with self._tasks.listeners(claim.delivery.task) as listeners:
            now = listeners.deliveries.get(claim.delivery.config_id)
            if now is None or now.revision != claim.delivery.revision:
                raise ClaimLost("Another delivers for this config, or it is gone.")
            return Claim(listeners.keep(replace(now, **changes)), claim.config)  # type: ignore[arg-type]
