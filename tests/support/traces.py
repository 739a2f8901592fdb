"""Traces of turns in memory, and their steps as lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from aion_core.clock import Clock, SystemClock
from aion_core.local.memory.table import MemoryTable
from aion_core.table.item import PARTITION
from aion_core.table.keys import TaskKey
from aion_core.trace.rows import StoredTrace
from aion_core.trace.step import Step
from aion_core.trace.store import TraceStore
from aion_core.trace.tracer import Tracer


@dataclass
class KeptTraces:
    """Tracer with its store in memory."""

    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.table = MemoryTable(self.clock)
        self.store = TraceStore(self.table, self.clock)
        self.tracer = Tracer(self.clock, self.store)

    async def pages(self) -> list[str]:
        """Return the partition of each stored page: one for each write."""
        return [item[PARTITION] for item in (await self.table.scan()).items]

    async def tries(self) -> list[StoredTrace]:
        """Return the stored traces, one for each try of a turn; all turns must belong to one task."""
        (partition,) = set(await self.pages())
        _, owner, task_id = partition.split("#")
        return await self.store.read(TaskKey(unquote(owner), task_id))

    async def steps(self) -> Sequence[Step]:
        """Return the steps of the only try."""
        (trace,) = await self.tries()
        return trace.steps


def tree(steps: Sequence[Step]) -> list[str]:
    """Return the kind and the name of each step, beneath the step around it."""
    children: dict[int, list[Step]] = {}
    for step in steps:
        children.setdefault(step.parent, []).append(step)

    def lines(parent: int, depth: int) -> list[str]:
        found = []
        for step in children.get(parent, []):
            found += [f"{'  ' * depth}{step.kind} {step.name}", *lines(step.id, depth + 1)]
        return found

    return lines(0, 0)


def named(steps: Sequence[Step], name: str) -> list[Step]:
    """Return the steps with this name."""
    return [step for step in steps if step.name == name]
