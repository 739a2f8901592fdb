"""Deterministic asyncio event loop with virtual time: idle time is skipped, and a seed orders the ready handles.

`SimLoop.now` is the world's time, which wall clocks show. `SimLoop.time()`, by which asyncio sets its timers, is the
monotonic clock of the running process, which may stand still while the process is frozen.
"""

import asyncio
import heapq
import logging
import math
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from aion_core.clock import Timer

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class Deadlock(Exception):
    """Error: all asyncio tasks wait, and no timer is set that could continue one of them."""


class Runaway(Exception):
    """Error: the loop ran more steps than any schedule needs, so there is an endless loop."""


class Life:
    """State of a simulated process: running, paused or ended; the tasks of an ended process stay paused."""

    __slots__ = ("alive", "held", "stood_still", "stopped_at", "timers")

    def __init__(self) -> None:
        self.alive = True
        self.held: list[asyncio.Handle] | None = None
        """Delayed steps of a held or ended life; None without a hold."""
        self.stood_still = 0.0
        """Seconds for which its monotonic clock has stood still."""
        self.stopped_at: float | None = None
        """Time at which its monotonic clock stopped; None while it runs."""
        self.timers: list[asyncio.TimerHandle] = []
        """Timers of a stopped clock."""


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)
"""Life of the running code; None for the world itself, which is never held."""


def _stood_still() -> float:
    life = LIFE.get()
    return life.stood_still if life is not None else 0.0


def _first_time(when: float, stood_still: float) -> float:
    """Return the first time of the world at which a monotonic clock that has stood still so long shows `when`.

    Without the correction of the rounding error, code could wake a little too early, and wait for zero seconds for ever.
    """
    at = when + stood_still
    while at - stood_still < when:
        at = math.nextafter(at, math.inf)
    return at


class SimTask(asyncio.Task[Any]):
    """asyncio task whose hash is a number, so that a set of tasks has the same order in each run of a schedule."""

    number = 0
    life: "Life | None" = None
    """Life of the code that created the task."""

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """Event loop with an order drawn from the seed, without threads, sockets or real time.

    The handles of a paused Life wait for its release. The tasks of an ended Life are cancelled after the schedule's
    checks: the garbage collector would close a coroutine that is never resumed, and run its `finally` blocks in the
    middle of a later schedule.
    """

    # Declare private attributes of asyncio's event loop and handles, because the published types omit them.
    _check_closed: Callable[[], None]
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, random: Random, *, most_steps: int = 150_000) -> None:
        super().__init__()
        self.now = 0.0
        """Time of the world in seconds."""
        self._random, self._left = random, most_steps
        self.everything: list[SimTask] = []
        """All tasks of this loop, referenced so that the garbage collector closes none."""

    def time(self) -> float:
        """Return the time of the running process's monotonic clock."""
        return self.now - _stood_still()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        """Set a timer by the running process's monotonic clock."""
        return super().call_at(_first_time(when, _stood_still()), callback, *args, **options)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> SimTask:
        self._check_closed()
        number = len(self.everything)
        # Set the number on the class first, because asyncio hashes the new task by its number during its construction.
        SimTask.number = number
        task = SimTask(coro, loop=self, name=str(name or f"task-{number}"), context=context)
        task.number, task.life = number, context.get(LIFE) if context is not None else LIFE.get()
        self.everything.append(task)
        return task

    def hold(self, life: Life, *, stops_clock: bool = False) -> None:
        """Pause the process with this life: delay all its handles until `release`.

        With `stops_clock` its monotonic clock stands still meanwhile, and its timers wait.
        """
        if life.held is not None:
            return
        life.held = []
        if stops_clock:
            life.stopped_at = self.now
            pending = [timer for timer in self._scheduled if not timer._cancelled]
            life.timers = [timer for timer in pending if timer._context.get(LIFE) is life]
            self._scheduled = [timer for timer in pending if timer._context.get(LIFE) is not life]
            heapq.heapify(self._scheduled)

    def release(self, life: Life) -> None:
        """Run the life's delayed handles, and its monotonic clock; do nothing if the life has ended."""
        if not life.alive:
            return
        held, life.held = life.held, None
        self._ready.extend(held or ())
        if life.stopped_at is not None:
            before, life.stood_still = life.stood_still, life.stood_still + self.now - life.stopped_at
            life.stopped_at = None
            for timer in life.timers:
                timer._when = _first_time(timer.when() - before, life.stood_still)  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, timer)
            life.timers = []

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and scheduled:
            self.now = max(self.now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self.now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        if not ready:
            raise Deadlock(f"at {self.now:.3f} s everybody waits for somebody else")
        batch = list(ready)
        ready.clear()
        self._left -= len(batch)
        if self._left < 0:
            raise Runaway(f"at {self.now:.3f} s the schedule has taken more steps than any should")
        if len(batch) > 1:
            self._random.shuffle(batch)
        for handle in batch:
            if handle._cancelled:
                continue
            life = handle._context.get(LIFE)
            if life is not None and life.held is not None:
                life.held.append(handle)
            else:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is dropped at its time."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no I/O events."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError("the simulation has one thread")


class SimClock:
    """`Clock` on the loop's time, `skew` seconds ahead; two readings at one moment differ by `tick`."""

    def __init__(self, loop: SimLoop, skew: float = 0.0, *, tick: float = 0.001) -> None:
        self._loop, self._skew, self._tick = loop, skew, tick
        self._next = skew

    @property
    def skew(self) -> float:
        """Return the seconds by which the clock is ahead."""
        return self._skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._skew = self._next = seconds

    def now(self) -> datetime:
        """Return the time; no two readings are the same."""
        return reading(self._read)

    def _read(self) -> datetime:
        seconds = max(self._loop.now + self._skew, self._next)
        self._next = seconds + self._tick
        return BEGINNING + timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call the callback after this number of seconds."""
        return asyncio.get_running_loop().call_later(seconds, callback)


READINGS: ContextVar[tuple[Iterator[Any], list[Any]] | None] = ContextVar("readings", default=None)
"""Earlier and all readings of clocks by the running blocking code; see `tests.simulation.table.unblocked`."""

T = TypeVar("T")


def reading(read: Callable[[], T]) -> T:
    """Return a reading of a clock. Blocking code that runs again gets its earlier readings."""
    readings = READINGS.get()
    if readings is None:
        return read()
    earlier, every = readings
    for known in earlier:
        return known  # type: ignore[no-any-return]
    every.append(read())
    return every[-1]  # type: ignore[no-any-return]


def at_once(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits; return its result."""
    try:
        work.send(None)
    except StopIteration as returned:
        return returned.value
    work.close()
    raise AssertionError("what is asked for at once may not wait")


@contextmanager
def no_logging(tracing: bool) -> Iterator[None]:
    """Disable the engine's log during a schedule, because its errors are deliberate."""
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET if tracing else logging.CRITICAL)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            # Ignore warnings about pending handles of the finished schedule, because these handles never run.
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        logging.disable(before)
        sys.unraisablehook = hook
