"""Wake-up messages and the sweep, with live, dead and missing holders."""

import asyncio

from aion_core.errors import StoreUnavailable
from aion_core.memory.queues import MemoryWorkQueue
from aion_core.ports import ContextKey, TurnStarted, WakeUp
from aion_core.protocol.types import TaskState
from aion_core.tasks.call import CallContext
from aion_core.tasks.sweep import Sweep
from tests.support.agents.scripted import LeaseHeld
from tests.support.clock import ManualClock
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore

CONTEXT = ContextKey("owner", "test", "c")
COMPLETED = TaskState.TASK_STATE_COMPLETED


class Deaf(MemoryWorkQueue):
    """A work queue that records its messages and delivers none."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.enqueued: list[tuple[WakeUp, float]] = []

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        self.enqueued.append((wake_up, delay))

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        self.enqueued.append((wake_up, delay))


async def test_sweep_replaces_a_lost_wake_up() -> None:
    clock = ManualClock()
    agent = LeaseHeld()
    agent.go.set()
    made = parts(agent, MemoryTaskStore(clock), clock)
    made.work_queue.close()
    call = CallContext("owner", "test")
    task = await made.service.send(call, request(return_immediately=True))
    assert task.status.state == TaskState.TASK_STATE_WORKING, "a bell that cannot be rung fails no request"
    work_queue = Deaf(clock)
    sweep = Sweep(made.store, work_queue)
    assert (await sweep.once()).found == 0, "not before the bell has had its time"
    clock.move(31)
    assert await sweep.once() == await _swept(1, 1)
    assert work_queue.enqueued == [(WakeUp(CONTEXT), 0.0)]
    assert (await sweep.once()).enqueued == 0, "what is claimed is left alone for a while"
    await made.worker.handle(WakeUp(CONTEXT))
    assert (await made.service.get(call, task.id)).status.state == COMPLETED
    clock.move(1000)
    assert (await sweep.once()).found == 0


async def _swept(found: int, enqueued: int) -> object:
    from aion_core.tasks.sweep import Swept

    return Swept(found, enqueued)


async def test_failed_enqueue_is_left_for_next_sweep() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(LeaseHeld(), store, clock)
    made.work_queue.close()
    await made.service.send(CallContext("owner", "test"), request(return_immediately=True))
    clock.move(31)
    broken = MemoryWorkQueue(clock)
    broken.close()
    swept = await Sweep(store, broken).once()
    assert (swept.found, swept.enqueued) == (1, 0)
    clock.move(61)
    assert (await Sweep(store, Deaf(clock)).once()).enqueued == 1


async def test_wake_up_takes_over_turn_of_dead_holder() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    agent = LeaseHeld()
    agent.go.set()
    made = parts(agent, store, clock)
    made.work_queue.close()
    task = await made.service.send(CallContext("owner", "test"), request(return_immediately=True))
    begun = await store.begin(CONTEXT, holder="dies")
    assert isinstance(begun, TurnStarted)
    work_queue = Deaf(clock)
    made.worker._work_queue = work_queue
    watching = WakeUp(CONTEXT, begun.lease.fence)
    await made.worker.handle(watching)
    ((again, delay),) = work_queue.enqueued
    assert again == watching
    assert 30 <= delay <= 32, "it is heard again when the lease has run out"
    await made.worker.handle(WakeUp(CONTEXT, begun.lease.fence + 7))
    await made.worker.handle(WakeUp(CONTEXT))
    assert len(work_queue.enqueued) == 1, "no other bell watches"
    clock.move(20)
    await made.worker.handle(WakeUp(CONTEXT))
    ((again, delay),) = work_queue.enqueued[1:]
    assert again == WakeUp(CONTEXT)
    assert 10 < delay <= 11, "nobody who lives lets a lease run down so far"
    clock.move(delay)
    await made.worker.handle(watching)
    got = await made.service.get(CallContext("owner", "test"), task.id)
    assert got.status.state == COMPLETED
    assert agent.asked == ["hi"]


async def test_a_bell_in_vain_does_nothing() -> None:
    made = parts(LeaseHeld())
    for wake_up in (WakeUp(CONTEXT), WakeUp(ContextKey("nobody", "test", "c")), WakeUp(CONTEXT, 3)):
        await made.worker.handle(wake_up)


async def test_wake_up_with_store_error_is_redelivered() -> None:
    clock = ManualClock()

    class Down(MemoryTaskStore):
        async def begin(self, context: ContextKey, *, holder: str) -> TurnStarted:
            raise StoreUnavailable("down")

    made = parts(LeaseHeld(), Down(clock), clock)
    try:
        await made.worker.handle(WakeUp(CONTEXT))
    except StoreUnavailable:
        return
    raise AssertionError("it was swallowed")


async def test_one_wake_up_runs_queue_in_order() -> None:
    agent = LeaseHeld()
    agent.go.set()
    made = parts(agent)
    call = CallContext("owner", "test")
    await asyncio.gather(
        *(made.service.send(call, request(f"{n}", message_id=f"m-{n}", return_immediately=True)) for n in range(5))
    )
    await made.work_queue.quiet()
    assert agent.asked == [f"{n}" for n in range(5)]
