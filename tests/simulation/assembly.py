"""The one place where the simulation meets the engine: its parts put together for a process, its entries called."""

import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Bell, TaskKey
from aion_core.protocol.types import Message
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.service import Call, TaskService
from aion_core.tasks.sweep import Sweep
from aion_core.tasks.time_up import TimeUp
from aion_core.tasks.worker import Worker
from tests.simulation.agents import ScriptedAgent
from tests.simulation.heartbeat import SimHeartbeat

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import World


@dataclass(frozen=True)
class Parts:
    """The engine as one process has it."""

    service: TaskService
    worker: Worker
    sweep: Sweep


def assemble(process: "Process") -> Parts:
    """Put the engine together as `bootstrap` does, with this process's view of the world."""
    world = process.world
    agent = ScriptedAgent(process)
    runner = TaskRunner(
        process.store, lambda _: agent, process.clock, process.bells, keep_lease=partial(SimHeartbeat, process)
    )
    worker = Worker(process.store, runner, process.bells, process.clock)
    service = TaskService(
        process.store, worker, process.bells, process.clock, double_texting={"agent": world.when_busy}
    )
    return Parts(service, worker, Sweep(process.store, process.bells))


def call(process: "Process", owner: str) -> Call:
    """Who asks, and until when this process can serve."""
    return Call(owner, "agent", time_up=TimeUp(process.deadline))


def back(call: Call, last_heard: str) -> Call:
    """The call of a client that comes back to a stream."""
    return replace(call, last_heard=last_heard)


def hear(process: "Process", bell: Bell) -> Awaitable[Any]:
    """Do as the function does that a bell has woken."""
    return process.parts.worker.answer(bell, until=process.deadline)


def sweep(process: "Process") -> Awaitable[Any]:
    """Do as the function does that is called each minute."""
    return process.parts.sweep.once()


def promised(store: MemoryTaskStore) -> list[str]:
    """What the table still owes to somebody, in words."""
    owed = [f"{key.context_id} has a due time" for key in store._due]
    for key, record in store._contexts.items():
        if record.running is not None:
            owed.append(f"{key.context_id} runs {record.running.id}, whose lease nobody gave back")
        if record.waiting and record.interrupted is None:
            owed.append(f"{key.context_id} has turns that wait: {[turn.id for turn in record.waiting]}")
    return owed


def waiting_messages(store: MemoryTaskStore, key: TaskKey) -> set[str]:
    """The ids of the messages that wait for the task."""
    return {Message.FromString(entry.asked or b"").message_id for entry in store._tasks[key].asked.values()}


@contextmanager
def deterministic(world: "World") -> Iterator[None]:
    """Let every new id come from the world, which counts."""
    patched = []
    for name, module in list(sys.modules.items()):
        if name.startswith("aion_core.") and hasattr(module, "uuid7"):
            patched.append((module, module.uuid7))
            module.uuid7 = world.new_id
    try:
        yield
    finally:
        for module, original in patched:
            module.uuid7 = original
