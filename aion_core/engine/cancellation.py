"""Cancellation of a task (A2A 3.1.5), whichever process runs it: recorded at once, not asked for and awaited."""

from aion_core.clock import Clock
from aion_core.engine.call import CallContext
from aion_core.engine.isolation import visible_head
from aion_core.engine.queues import WorkQueue
from aion_core.engine.task import states, updates
from aion_core.engine.turn.store import TurnStore
from aion_core.engine.wake_ups import wake
from aion_core.errors import ContextBusy, LeaseLost, TaskNotCancelable

RETRIES = 50
"""Limit of attempts to cancel a task: a new event of its running agent makes an attempt fail."""


class Cancellation:
    """Cancellation of callers' tasks. The store refuses later events of the agent: the fence has grown."""

    def __init__(self, store: TurnStore, work_queue: WorkQueue, clock: Clock) -> None:
        self._store, self._work_queue, self._clock = store, work_queue, clock

    async def cancel(self, call: CallContext, task_id: str, reason: str) -> None:
        """Cancel a task that runs in any process. Raises TaskNotFound, or TaskNotCancelable if the task has ended."""
        for _ in range(RETRIES):
            head = await visible_head(self._store, task_id, call)
            if head.state in states.TERMINAL:
                raise TaskNotCancelable(f"Task cannot be canceled: it is {states.state_name(head.state)}.")
            try:
                ended = await self._store.cancel(head, updates.canceled(head, self._clock.now(), reason))
            except LeaseLost:
                continue
            if ended.waiting:
                await wake(self._work_queue, head.context)
            if head.calls or head.state in states.INTERRUPTED:
                await wake(self._work_queue, head.context, canceled_task=task_id)
            return
        raise ContextBusy("The task changes too fast to be canceled. Try again in a moment.")
