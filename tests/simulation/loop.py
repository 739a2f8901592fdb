"""An asyncio event loop whose time is made up: it jumps where nothing is ready, and a seed decides who goes first."""

import asyncio
import heapq
import logging
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class Deadlock(Exception):
    """Everybody waits, and nothing will ever happen."""


class Runaway(Exception):
    """More happened than any schedule needs: something goes round in circles."""


class Life:
    """The life of a process: its tasks may run, be held for a while, or end for good."""

    __slots__ = ("alive", "held")

    def __init__(self) -> None:
        self.alive = True
        self.held: list[asyncio.Handle] | None = None
        """Steps that would have run since it is being held, None while it is not."""


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)
"""The life under which the present code runs; None for the world itself, which is never held."""


class SimTask(asyncio.Task[Any]):
    """A task with a number, so that a set of tasks has the same order in each run."""

    number = 0
    life: "Life | None" = None
    """Under which it was made."""

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    """Runs what is ready in an order drawn from the seed; no thread, no socket, no real second.

    What runs under a Life that has ended is dropped where it stands, `finally` blocks and all; what runs under one
    that is held waits until that is released.
    """

    # Attributes of asyncio.BaseEventLoop, and of its handles, without published types.
    _check_closed: Callable[[], None]
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, random: Random, *, most_steps: int = 150_000) -> None:
        super().__init__()
        self._random, self._now, self._left = random, 0.0, most_steps
        self.everything: list[SimTask] = []
        """All tasks of this loop. Held here so that no garbage collection decides when one is closed."""

    def time(self) -> float:
        return self._now

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> SimTask:
        self._check_closed()
        number = len(self.everything)
        # asyncio puts the task into a set while it is being made: its number has to be there already.
        SimTask.number = number
        task = SimTask(coro, loop=self, name=str(name or f"task-{number}"), context=context)
        task.number, task.life = number, context.get(LIFE) if context is not None else LIFE.get()
        self.everything.append(task)
        return task

    def hold(self, life: Life) -> None:
        """Let nothing of this life run."""
        if life.held is None:
            life.held = []

    def release(self, life: Life) -> None:
        """Let it run again, beginning with what would have run meanwhile."""
        held, life.held = life.held, None
        self._ready.extend(held or ())

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and scheduled:
            self._now = max(self._now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        if not ready:
            raise Deadlock(f"at {self._now:.3f} s everybody waits for somebody else")
        batch = list(ready)
        ready.clear()
        self._left -= len(batch)
        if self._left < 0:
            raise Runaway(f"at {self._now:.3f} s the schedule has taken more steps than any should")
        if len(batch) > 1:
            self._random.shuffle(batch)
        for handle in batch:
            if handle._cancelled:
                continue
            life = handle._context.get(LIFE)
            if life is not None:
                if not life.alive:
                    continue
                if life.held is not None:
                    life.held.append(handle)
                    continue
            handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector that would have to be woken."""

    def _process_events(self, event_list: Any) -> None:
        """There are no events but our own."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError("the simulation has one thread")


class SimClock:
    """`ports.Clock` on the loop's time, `skew` seconds ahead; it moves by `tick` between two readings at one moment."""

    def __init__(self, loop: SimLoop, skew: float = 0.0, *, tick: float = 0.001) -> None:
        self._loop, self._skew, self._tick = loop, skew, tick
        self._next = skew

    @property
    def skew(self) -> float:
        """Return how far the clock is ahead."""
        return self._skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._skew = self._next = seconds

    def now(self) -> datetime:
        """Return the time; no two readings are the same."""
        seconds = max(self._loop.time() + self._skew, self._next)
        self._next = seconds + self._tick
        return BEGINNING + timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await asyncio.sleep(seconds)


def at_once(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> Any:
    """Return what the coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as returned:
        return returned.value
    work.close()
    raise AssertionError("what is asked for at once may not wait")


@contextmanager
def no_logging(tracing: bool) -> Iterator[None]:
    """Keep the engine's log out of the way: what goes wrong here goes wrong on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET if tracing else logging.CRITICAL)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            # What was about to begin when the schedule was over never does.
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        logging.disable(before)
        sys.unraisablehook = hook
