"""Steps of a task's turns, and the lease of the turn that runs now, as plain JSON for the console."""

from typing import Any

import msgspec

from aion_core.clock import Clock
from aion_core.engine.context.record import record_of
from aion_core.table import keys
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.trace.store import TraceStore


class TurnViews:
    """Reader of what the development server knows about the turns of a task."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock, self._traces = table, clock, TraceStore(table, clock)

    async def view(self, task: TaskKey, context: ContextKey) -> dict[str, Any]:
        """Return each try of the task's turns with its steps, oldest first, and the lease of its running turn.

        `lease` has the `until` of this lease in milliseconds since 1970, as `now`; it is None if no process has one. `wait`
        says since when a suspended turn waits, until when at most, and when the next look is; None if it does not. Raises
        StoreError.
        """
        now = self._clock.now().timestamp()
        record = record_of(await self._table.get(keys.context_key(context)), int(now))
        runs = record.runs(task.task_id)
        lease = {"fence": record.fence, "until": record.until} if runs and record.holder else None
        wait = record.wait if runs else None
        waits = {"since": wait.since, "until": wait.until, "look": record.until} if wait is not None else None
        tries = [
            {
                "turn": each.turn_id,
                "fence": each.fence,
                "steps": msgspec.to_builtins(each.steps),
                "dropped": each.dropped,
            }
            for each in await self._traces.read(task)
        ]
        return {"tries": tries, "lease": lease, "wait": waits, "now": int(now * 1000)}
