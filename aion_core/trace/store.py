"""Store of traces: the steps of turns, in the table of a development server."""

from collections.abc import Sequence

from aion_core.clock import Clock
from aion_core.table import keys
from aion_core.table.item import LAST
from aion_core.table.keys import TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.trace.rows import StoredTrace, trace_row, traces_of
from aion_core.trace.step import Step, TracedTurn


class TraceStore:
    """Store of the steps of turns, for the developer. No client can read it."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock, self._reads = table, clock, Reads(table, clock)

    async def write(self, turn: TracedTurn, page: int, steps: Sequence[Step], dropped: int = 0) -> None:
        """Store the steps that have changed since page `page - 1`. Raises StoreError."""
        now = int(self._clock.now().timestamp())
        await self._table.write(trace_row(turn, page, steps, dropped, now=now))

    async def read(self, task: TaskKey) -> list[StoredTrace]:
        """Return the traces of a task, one for each try of its turns, oldest first, also while a turn runs.

        Raises StoreError.
        """
        return traces_of(await self._reads.query(keys.trace_partition(task), "", LAST))
