"""Assembly of the engine in a simulated process, and calls of the process's entry points."""

import random
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from aion_core.delegation.cancel import cancel_remote_task
from aion_core.delegation.looks import have_answers
from aion_core.engine import timers
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.call import CallContext
from aion_core.engine.delivery import store as deliveries
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.engine.remote_calls.callbacks import RemoteCallbacks, hash_of
from aion_core.engine.remote_calls.cancellation import Canceled, RemoteCancellations
from aion_core.engine.remote_calls.records import CallToCancel
from aion_core.engine.runner import execution
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.service import TaskService
from aion_core.engine.sweep import Sweep
from aion_core.engine.task_store import TaskStore
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.push.attempts import SKIPPED as SKIPPED
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import Notification, WebhookRequest
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.keys import TaskKey
from aion_core.table.times import milliseconds
from tests.simulation.agents import ScriptedAgent
from tests.simulation.heartbeat import SimHeartbeat
from tests.simulation.remotes import SimRemoteClient
from tests.simulation.table import SimOperations
from tests.support.metrics import MemoryMetrics

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import SimWorld

AGENT = "agent"
SHARDS = 2
"""Number of shards of the timer index; a sweep makes one request for each."""

PUSH_OPERATIONS = {
    "put": "register",
    "delete": "register",
    "claim": "push_claim",
    "clear": "push_clear",
    "clear_subscribers": "push_clear",
    "claim_expired": "push_sweep",
    "deliveries": "push_read",
    **dict.fromkeys(("expired_plans", "overdue_waits", "waiting", "in_delivery"), "push_timers"),
    **dict.fromkeys(("advance", "settle", "fail", "give_up", "disable"), "push_move"),
}
"""Name of each push config method in the kinds of side effect."""


OPERATIONS = {
    "every_event": "log",
    **dict.fromkeys(("dead_leases", "overdue_waits", "count_waits"), "expired_timers"),
}
"""Name of some methods of the task store in the kinds of side effect."""

CALL_OPERATIONS = {
    "begin": "call_begin",
    "claim": "call_claim",
    "overdue": "call_overdue",
    "all": "call_read",
    "to_cancel": "call_read",
    "still_expected": "call_read",
    **dict.fromkeys(("reached", "reopen", "settle", "close"), "call_move"),
}
"""Name of each method of the remote calls' store in the kinds of side effect."""


@dataclass(frozen=True)
class Parts:
    """Engine objects of one process."""

    service: TaskService
    worker: Worker
    sweep: Sweep
    delivery: PushDelivery
    registry: "Registry"
    lister: TaskLister
    callbacks: RemoteCallbacks


def assemble(process: "Process") -> Parts:
    """Assemble the engine as `bootstrap` does, with the simulated table, queue and clock of the process."""
    world, clock, work_queue, push_queue = process.world, process.clock, process.work_queue, process.push_queue
    settings = world.deployment
    agent, metrics = ScriptedAgent(process), MemoryMetrics()
    tasks = TaskStore(
        process.table,
        cast("Blobs", process.blobs),  # the store calls only the methods that SimBlobs has
        clock,
        retention=settings.retention,
        cipher=world.cipher,
        notifier=CommitNotifier(push_queue),
    )
    store: Any = SimOperations(process, tasks, names=OPERATIONS)
    calls: Any = SimOperations(process, tasks.remote_calls, names=CALL_OPERATIONS)
    store.remote_calls = calls
    configs: Any = SimOperations(
        process,
        PushConfigs(process.table, world.cipher, clock, retention=settings.retention),
        names=PUSH_OPERATIONS,
    )
    task_list: Any = SimOperations(
        process, TaskList(process.table, clock), names=dict.fromkeys(("page", "count", "secret"), "list")
    )
    limits: Any = SimOperations(process, RateLimits(process.table, clock, retention=settings.retention))
    runner = TaskRunner(
        store,
        lambda _: agent,
        clock,
        work_queue,
        keep_lease=partial(SimHeartbeat, process),
        conversations=Conversations(store, task_list),
        replies={AGENT: settings.reply},
        answers={AGENT: settings.answer},
        metrics=metrics,
    )

    async def cancel_remote(call: CallToCancel) -> Canceled:
        client: Any = SimRemoteClient(process)
        return await cancel_remote_task(client, call, now=milliseconds(clock.now()))

    cancellations = RemoteCancellations(calls, cancel_remote, store.note_unreached, work_queue, clock)

    @asynccontextmanager
    async def client(_: str) -> AsyncIterator[Any]:
        yield SimRemoteClient(process)

    worker = Worker(store, runner, work_queue, clock, cancellations, partial(have_answers, client, calls))
    most = settings.open_tasks
    service = TaskService(
        store,
        worker,
        work_queue,
        clock,
        double_texting={AGENT: settings.when_busy},
        replies={AGENT: settings.reply},
        open_tasks=OpenTasks(limits, store, clock, most=most) if most else None,
    )
    sweep = Sweep(
        store, work_queue, configs, push_queue, remote_calls=calls if settings.delegates else None, metrics=metrics
    )
    delivery = PushDelivery(
        store,
        configs,
        push_queue,
        process.webhooks,
        render,
        clock,
        chance=world.random.random,
        retry_seconds=RETRY_SECONDS,
        metrics=metrics,
    )
    callbacks: Any = SimOperations(
        process,
        RemoteCallbacks(process.table, work_queue, clock, lease_seconds=30.0),
        names=dict.fromkeys(("find", "use"), "callback"),
    )
    registry = Registry(configs, push_queue)
    return Parts(service, worker, sweep, delivery, registry, TaskLister(store, task_list), callbacks)


RETRY_SECONDS = (5.0, 60.0, 1000.0)
"""Delays before the retries of a notification; the last delay is too long for an SQS message and needs a timer."""


def render(config: PushConfig, notification: Notification, at: datetime) -> WebhookRequest:
    """Return the webhook request of a notification; the simulated receivers read its headers."""
    task = notification.task
    words = {"owner": task.owner, "task": task.task_id, "config": config.id, "generation": notification.generation}
    return WebhookRequest({"id": notification.id, **{name: str(word) for name, word in words.items()}}, b"")


class Registry:
    """Registers and deletes push configs, as the HTTP entry points do."""

    def __init__(self, configs: Any, push_queue: Any) -> None:
        self._configs, self._push_queue = configs, push_queue

    async def put(self, call: CallContext, task_id: str, config: PushConfig) -> Any:
        """Store the config, and enqueue a wake-up message for push delivery."""
        key = TaskKey(call.owner, task_id)
        delivery = await self._configs.put(key, config)
        await self._push_queue.enqueue(PushWakeUp(key))
        return delivery

    async def delete(self, call: CallContext, task_id: str, config_id: str) -> Any:
        """Delete the config."""
        await self._configs.delete(TaskKey(call.owner, task_id), config_id)
        return "deleted"


def call(process: "Process", owner: str) -> CallContext:
    """Return the context of a call by the owner, with the process's deadline."""
    return CallContext(owner, AGENT, deadline=Deadline(process.deadline), caller=owner)


def back(call: CallContext, last_event_id: str) -> CallContext:
    """Return the same call with the Last-Event-ID with which a client reconnects."""
    return replace(call, last_event_id=last_event_id)


def handle_wake_up(process: "Process", wake_up: WakeUp | PushWakeUp) -> Awaitable[Any]:
    """Handle a wake-up message as the Lambda function does."""
    handled: Awaitable[Any]
    if isinstance(wake_up, PushWakeUp):
        handled = process.parts.delivery.deliver(wake_up, until=process.deadline)
    else:
        handled = process.parts.worker.handle(wake_up, until=process.deadline)
    return handled


async def call_back(process: "Process", token: str) -> bool:
    """Answer a callback that reports an end, as the HTTP entry point does. Return True if it was valid."""
    callback = await process.parts.callbacks.find(token)
    return callback is not None and await process.parts.callbacks.use(callback)


def sweep(process: "Process") -> Awaitable[Any]:
    """Sweep as the scheduled function does each minute."""
    swept: Awaitable[Any] = process.parts.sweep.once()
    return swept


@cache
def _places(modules: int, *names: str) -> list[tuple[Any, str]]:
    """Return each engine module with one of the names; `modules`, the number of loaded modules, is only a cache key."""
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("aion_core.")]
    return [(module, name) for module in ours for name in names if hasattr(module, name)]


def _new_token(world: "SimWorld") -> tuple[str, str]:
    token = world.new_id()
    return token, hash_of(token)


@contextmanager
def deterministic(world: "SimWorld") -> Iterator[None]:
    """Take new ids and random numbers from the seeded world; set the constants of the world's deployment."""
    patched: list[tuple[Any, str, Any]] = [
        (execution, "SNAPSHOT_EVERY", world.deployment.snapshot_every),
        (keys, "TIMER_SHARDS", SHARDS),
        (timers, "LEASES", timers.LEASES[:SHARDS]),
        (timers, "WAITS", timers.WAITS[:SHARDS]),
        (deliveries, "PUSH_PLANS", timers.PUSH_PLANS[:SHARDS]),
        (deliveries, "PUSH_WAITS", timers.PUSH_WAITS[:SHARDS]),
    ]
    patched += [(module, name, world.new_id) for module, name in _places(len(sys.modules), "uuid7", "uuid4")]
    patched += [(module, name, partial(_new_token, world)) for module, name in _places(len(sys.modules), "new_token")]
    patched += [
        (module, name, world.random)
        for module, name in _places(len(sys.modules), "random")
        if getattr(module, name) is random
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in patched]
    for module, name, replaced in patched:
        setattr(module, name, replaced)
    try:
        yield
    finally:
        for module, name, original in before:
            setattr(module, name, original)
