"""Execution environment of Lambda: a process in the shared world, with a possible fault at each side effect."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.errors import StoreUnavailable
from aion_core.push.client import PostOutcome
from tests.simulation.faults import Aim, Fault, is_request
from tests.simulation.loop import LIFE, Life, SimClock, SimTask, at_once, reading
from tests.simulation.table import SimBlobs, SimTable, blocking

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

LATENCIES = (0.0, 0.001, 0.002, 0.004, 0.004, 0.008, 0.02)
INVOCATION_SECONDS = 900.0


class Process:
    """Process of a Lambda function; it can be killed, frozen and blocked. All its side effects pass `effect`."""

    def __init__(self, world: "SimWorld", name: str, *, skew: float = 0.0) -> None:
        self.world, self.name = world, name
        self.life, self.beating = Life(), Life()
        """Lives of the process's event loop and of its other threads: a blocked loop does not hold the threads."""
        self.clock = SimClock(world.loop, skew)
        self.parts: Any = None
        """`assembly.Parts`: the engine objects of this process."""
        self.buffered = world.random.random() < 0.2
        """True if the entry point sends the answer only after the call has returned (the buffered handler)."""
        self.many = name.startswith("api") and not self.buffered and world.random.random() < 0.2
        """True for a server instead of Lambda: concurrent calls, without a timeout."""
        self.serving = 0
        self.deadline = self.clock.now() + timedelta(seconds=INVOCATION_SECONDS)
        self.release = world.release
        self.table, self.blobs, self.webhooks = SimTable(self), SimBlobs(self), Webhooks(self)
        self.work_queue, self.push_queue = SimQueue(self, WakeUp), SimQueue(self, PushWakeUp)
        self._at_death: list[Callable[[], None]] = []
        self._death: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        return self.life.alive

    @property
    def busy(self) -> bool:
        return self.serving > 0

    # ── Running ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, work: Coroutine[Any, Any, Any], *, beside: bool = False) -> SimTask:
        """Run the work in this process; with `beside`, in another simulated thread."""
        context = copy_context()
        context.run(LIFE.set, self.beating if beside else self.life)
        return self.world.loop.create_task(work, context=context)

    def invoked(self, seconds: float = INVOCATION_SECONDS, *, really: float | None = None) -> None:
        """Begin an invocation of this length; the process dies at its end, or after `really` seconds if given."""
        self.serving += 1
        if self.serving > 1:
            return
        self.world.loop.release(self.life)
        self.world.loop.release(self.beating)
        if self.many and really is None:
            self.deadline = self.clock.now() + timedelta(days=30)
            return
        self.deadline = self.clock.now() + timedelta(seconds=seconds)
        self._death = self.world.outside(really if really is not None else seconds, self.kill, "its time was up")

    def rests(self) -> None:
        """End the invocation: as on Lambda, the process then runs nothing until its next invocation."""
        self.serving -= 1
        if self.serving:
            return
        if self._death is not None:
            self._death.cancel()
        for life in (self.life, self.beating):
            self.world.loop.hold(life, stops_clock=self.world.clocks_stop)

    def at_death(self, tell: Callable[[], None]) -> None:
        """Register a function to call when the process dies."""
        self._at_death.append(tell)

    def kill(self, why: str) -> None:
        """End the process immediately, without cleanup."""
        if not self.life.alive:
            return
        self.world.trace(self.name, f"dies: {why}")
        self.world.history.troubled.add(self.name)
        self.world.history.deaths[self.name] = self.world.loop.now
        for life in (self.life, self.beating):
            self.world.loop.hold(life)
            life.alive = False
        if self._death is not None:
            self._death.cancel()
        self.serving = 0
        for tell in self._at_death:
            self.world.outside(0.01, tell)

    async def freeze(self, seconds: float, *, after_takeover: float | None = None) -> None:
        """Freeze all threads for this number of seconds; the wall clock continues.

        With `after_takeover`, only until this many seconds after another process acquires a lease.
        """
        self.world.trace(self.name, f"is frozen for {seconds:g} s")
        self.world.history.troubled.add(self.name)
        if self._death is not None and self._death.when() < self.world.loop.now + seconds + 60:
            # Postpone the invocation's timeout until after the freeze, because Lambda freezes a process only between
            # invocations, when no timeout runs.
            self._death.cancel()
            self._death = self.world.outside(seconds + 60, self.kill, "its time was up")
        lives = [life for life in (self.life, self.beating) if life.held is None]
        for life in lives:
            self.world.loop.hold(life, stops_clock=self.world.clocks_stop)
        thaw = self.world.outside(seconds, self._thaw, lives)
        if after_takeover is not None:

            def thaw_now() -> None:
                thaw.cancel()
                self._thaw(lives)

            self.world.waits_for_takeover(self, thaw_now, after_takeover)
        self.world.thawed = max(self.world.thawed, self.world.loop.now + seconds)
        await asyncio.sleep(0)

    async def block(self, seconds: float) -> None:
        """Block the event loop for this number of seconds, like a node that computes; other threads continue."""
        now = self.world.loop.now
        self.world.history.blocked.append((self.name, now, now + seconds))
        self.world.loop.hold(self.life)
        self.world.outside(seconds, self._thaw, [self.life])
        await asyncio.sleep(0)

    def _thaw(self, lives: list[Life]) -> None:
        for life in lives:
            self.world.loop.release(life)

    def monotonic(self) -> float:
        """Return the time of the process's monotonic clock."""
        return reading(lambda: self.world.loop.now - self.life.stood_still)

    def remaining(self) -> float:
        """Return the seconds until the deadline by the process's own clock."""
        return (self.deadline - self.clock.now()).total_seconds()

    # ── Side effects ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def effect(self, kind: str, act: Callable[[], Any]) -> Any:
        """Do a side effect visible to other processes; all faults happen here.

        `act` takes no time. Return the result of `act`, or raise its error or the error of a fault.
        """
        world = self.world
        if world.over:
            raise asyncio.CancelledError
        aim = world.plan.at(kind)
        latency = world.random.choice(LATENCIES)
        await asyncio.sleep(latency)
        if aim is not None:
            world.befalls(aim, kind, self)
            await self._before(aim, kind, act)
        if world.unavailable() and is_request(kind):
            raise StoreUnavailable("The table takes no more requests just now.")
        try:
            if aim is None:
                result = self.acts(kind, act)
            else:
                result = await self._acts_with(aim, kind, act)
        except StoreUnavailable:
            raise
        except Exception:
            if aim is not None:
                await self._after(aim, kind)
            raise
        if aim is not None:
            await self._after(aim, kind)
        if latency > 0.002:
            await asyncio.sleep(latency / 2)
        return result

    async def moment(self, kind: str) -> None:
        """Pass a moment without an effect in the agent's code. It takes no time, unless a fault happens."""
        aim = self.world.plan.at(kind)
        if aim is not None:
            self.world.befalls(aim, kind, self)
            await self._before(aim, kind, lambda: None)
            await self._after(aim, kind)

    def acts(self, kind: str, act: Callable[[], Any], aim: Aim | None = None) -> Any:
        """Run `act` at this moment of the simulated time, and return its result."""
        self.world.aim = aim
        done = act()
        if inspect.iscoroutine(done):
            done = at_once(done)
        if self.world.tracing:
            self.world.trace(self.name, f"{kind} -> {_short(done)}")
        return done

    async def _acts_with(self, aim: Aim, kind: str, act: Callable[[], Any]) -> Any:
        """Do the side effect with a fault in its middle, or several times for Fault.DOUBLED."""
        if aim.fault is Fault.HALF_MADE:
            self.world.aim = None
            # Shield the request, because a transaction that has reached the table completes even if the process dies.
            return await asyncio.shield(self.world.beside(act(), seconds=aim.amount))
        result = self.acts(kind, act, aim)
        if aim.fault is Fault.DOUBLED and not kind.startswith("queue"):
            for _ in range(int(aim.amount)):
                await asyncio.sleep(0.1)
                result = self.acts(kind, act)
        return result

    async def _before(self, aim: Aim, kind: str, act: Callable[[], Any]) -> None:
        match aim.fault:
            case Fault.CRASH_BEFORE:
                await self._die(f"before {kind}")
            case Fault.CRASH_IN_FLIGHT:
                self.world.outside(aim.amount, self._arrive_late, kind, act)
                await self._die(f"while {kind} is under way")
            case Fault.ARRIVES_LATE:
                self.world.outside(aim.amount, self._arrive_late, kind, act)
                raise StoreUnavailable("No answer came in time.")
            case Fault.FROZEN_BEFORE:
                await self.freeze(aim.amount)
            case Fault.OVERTAKEN:
                await self.freeze(400.0, after_takeover=aim.amount)
            case Fault.SLOW:
                await asyncio.sleep(aim.amount / 2)
            case Fault.THROTTLED:
                raise StoreUnavailable("Throttled.")
            case Fault.BURST:
                self.world.unavailable_until = self.world.loop.now + aim.amount
            case Fault.SKEWED:
                self.clock.skew += aim.amount
                self.world.skewed = True

    async def _after(self, aim: Aim, kind: str) -> None:
        match aim.fault:
            case Fault.CRASH_AFTER:
                await self._die(f"after {kind}")
            case Fault.SLOW:
                await asyncio.sleep(aim.amount / 2)
            case Fault.FROZEN_AFTER:
                await self.freeze(aim.amount)
            case Fault.ANSWER_LOST:
                raise StoreUnavailable("The answer did not come.")

    def _arrive_late(self, kind: str, act: Callable[[], Any]) -> None:
        try:
            self.acts(kind, act)
        except Exception as refused:
            self.world.trace(self.name, f"{kind}, late, -> {refused!r}")

    async def _die(self, where: str) -> None:
        self.kill(where)
        await asyncio.get_running_loop().create_future()


class SimQueue:
    """`WorkQueue` or `PushQueue` of one process, over the simulated queue."""

    def __init__(self, process: Process, kind: type[WakeUp | PushWakeUp]) -> None:
        self._process, self._kind = process, kind
        self.counted = 0
        """Result of the last `backlog`."""

    async def enqueue(self, wake_up: WakeUp | PushWakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        """See `WorkQueue.enqueue`. No message overtakes another, as may happen in SQS."""
        world = self._process.world
        await self._process.effect("queue.send", lambda: world.enqueue_message(self._process, wake_up, delay))

    async def backlog(self) -> int:
        """See `WorkQueue.backlog`."""
        queue = self._process.world.queue
        self.counted = await self._process.effect("queue.count", lambda: queue.waiting(self._kind))
        return self.counted

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """See `WorkQueue.enqueue_from_thread`."""
        blocking(lambda: self.enqueue(wake_up, delay=delay))


class Webhooks:
    """`WebhookClient` of one process, over the simulated receivers."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        process = self._process
        answer = await process.effect("webhook.post", lambda: process.world.receives(process, headers))
        await asyncio.sleep(answer.seconds)
        outcome: PostOutcome = answer.outcome
        return outcome


def _short(done: Any) -> str:
    text = repr(done).replace("\n", " ")
    return text if len(text) < 160 else f"{text[:157]}..."
