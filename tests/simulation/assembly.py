"""The one place where the simulation meets the engine: its parts put together for a process, its entries called."""

import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from aion_core.memory.metrics import MemoryMetrics
from aion_core.ports import Bell, Notification, PushBell, PushConfig, TaskKey, WebhookRequest
from aion_core.protocol.types import Message
from aion_core.push.delivery import PushDelivery
from aion_core.push.tries import SPARED as SPARED
from aion_core.tasks.call import Call
from aion_core.tasks.ringing import RingingStore
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.service import TaskService
from aion_core.tasks.sweep import Sweep
from aion_core.tasks.time_up import TimeUp
from aion_core.tasks.worker import Worker
from tests.simulation.agents import ScriptedAgent
from tests.simulation.heartbeat import SimHeartbeat
from tests.support.stores import MemoryTaskStore

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import World


@dataclass(frozen=True)
class Parts:
    """The engine as one process has it."""

    service: TaskService
    worker: Worker
    sweep: Sweep
    delivery: PushDelivery
    registry: "Registry"


def assemble(process: "Process") -> Parts:
    """Put the engine together as `bootstrap` does, with this process's view of the world."""
    world = process.world
    agent = ScriptedAgent(process)
    store = RingingStore(process.store, process.push_bells)
    metrics = MemoryMetrics()
    runner = TaskRunner(
        store,
        lambda _: agent,
        process.clock,
        process.bells,
        keep_lease=partial(SimHeartbeat, process),
        metrics=metrics,
    )
    worker = Worker(store, runner, process.bells, process.clock)
    service = TaskService(store, worker, process.bells, process.clock, double_texting={"agent": world.when_busy})
    sweep = Sweep(store, process.bells, process.push_configs, process.push_bells, metrics=metrics)
    delivery = PushDelivery(
        store,
        process.push_configs,
        process.push_bells,
        process.webhooks,
        render,
        process.clock,
        chance=world.random.random,
        retry_seconds=RETRY_SECONDS,
        metrics=metrics,
    )
    return Parts(service, worker, sweep, delivery, Registry(process))


RETRY_SECONDS = (5.0, 60.0, 1000.0)
"""When a notification is tried again: soon, by a bell a minute ahead, and by the due index alone."""


def render(config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
    """What is posted, in words that the receivers of the world read."""
    task = notification.task
    words = {"owner": task.owner, "task": task.task_id, "config": config.id, "generation": notification.generation}
    return WebhookRequest({"id": notification.id, **{name: str(word) for name, word in words.items()}}, b"")


class Registry:
    """Registers and deletes push configs, as the front does."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    async def put(self, call: Call, task_id: str, config: PushConfig) -> Any:
        """Keep the config, and ring."""
        key = TaskKey(call.owner, task_id)
        delivery = await self._process.push_configs.put(key, config)
        await self._process.push_bells.ring(PushBell(key))
        return delivery

    async def delete(self, call: Call, task_id: str, config_id: str) -> Any:
        """Forget the config."""
        await self._process.push_configs.delete(TaskKey(call.owner, task_id), config_id)
        return "deleted"


def listening(call: Call, config: PushConfig | None) -> Call:
    """The call of a client that wants to hear of its task."""
    return replace(call, push=config)


def call(process: "Process", owner: str) -> Call:
    """Who asks, and until when this process can serve."""
    return Call(owner, "agent", time_up=TimeUp(process.deadline))


def back(call: Call, last_heard: str) -> Call:
    """The call of a client that comes back to a stream."""
    return replace(call, last_heard=last_heard)


def hear(process: "Process", bell: Bell | PushBell) -> Awaitable[Any]:
    """Do as the function does that a bell has woken."""
    if isinstance(bell, PushBell):
        return process.parts.delivery.answer(bell, until=process.deadline)
    return process.parts.worker.answer(bell, until=process.deadline)


def sweep(process: "Process") -> Awaitable[Any]:
    """Do as the function does that is called each minute."""
    return process.parts.sweep.once()


def promised(store: MemoryTaskStore) -> list[str]:
    """What the table still owes to somebody, in words."""
    owed = [f"{key.context_id} has a due time" for key in store._due]
    owed += [f"{due.task.task_id} has a notification due: {due}" for due in store.pushes_due()]
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
