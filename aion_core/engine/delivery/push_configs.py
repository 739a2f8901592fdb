"""Push configs (webhooks) of tasks, as clients add, read and delete them."""

from collections.abc import Sequence

from aion_core.engine.delivery import transitions
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.push_config import PushConfig
from aion_core.engine.task import subscribers
from aion_core.engine.task.head import head_of
from aion_core.errors import TaskNotFound
from aion_core.table import keys
from aion_core.table.keys import TaskKey
from aion_core.table.retries import TransactionPlan, commit
from aion_core.table.writes import Delete, Update


class PushConfigs(DeliveryStore):
    """Store of the push configs of tasks, and of their deliveries. They expire with their task.

    Configs are encrypted. Only `get`, `all` and `claim` decrypt them. Every method may raise StoreUnavailable, and may
    then be repeated. A message may contain a config: `MessageStore.create` and `MessageStore.follow_up` store message
    and config in one transaction (`NewTask.push`, `FollowUp.push`).
    """

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Store a push config for the task's later events, and return its delivery state.

        A config with the same id is replaced, but its cursor stays: the new webhook receives the pending events. The
        config gets a timer, in case the caller's wake-up message is lost. Raises TaskNotFound, and TooManyPushConfigs
        at the limit.
        """
        mine: set[str] = set()

        async def plan(_attempt: int) -> TransactionPlan[Delivery]:
            item, known = await self._reads.get(keys.head_key(task)), await self._items.known(task)
            if item is None:
                raise TaskNotFound(task.task_id)
            stored = transitions.find(known, config.id)
            if stored is not None and stored.revision in mine:
                return TransactionPlan(stored)  # An earlier attempt of this call succeeded, but its response was lost.
            head = head_of(task, item)
            registered = await self._items.register(task, config, known, after=head.generation)
            mine.add(registered.delivery.revision)
            subscribed = subscribers.subscribed(head, subscribers.head_with_subscriber(head, config))
            return TransactionPlan(registered.delivery, [Update(keys.head_key(task), subscribed), registered.write])

        return await commit(self._table, plan, busy="The task's push configs are changed by too many requests at once.")

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the task's push config with this id; None if the task or the config does not exist."""
        item = await self._reads.get(keys.push_key(task, config_id))
        return await self._items.decrypted(task, item) if item is not None else None

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's push configs sorted by id, at most MAX_PUSH_CONFIGS; empty if the task does not exist."""
        return [await self._items.decrypted(task, item) for item in await self._items.rows(task)]

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Delete the push config, if it exists. A process that has claimed it may still post once."""
        await self._write(Delete(keys.push_key(task, config_id)))
