"""Process in which turns run: its deadline, background turns, lease heartbeats, and guards around agents' code.

A lease is the right to run one turn. A heartbeat renews the lease while the turn runs.
"""

import asyncio
import heapq
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct, field

from aion_core.errors import AgentFailed, StoreError
from aion_core.ports import Lease, TaskStore, WakeUp, WorkQueue

logger = logging.getLogger(__name__)

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""Seconds before the deadline: first a turn is asked to stop at its next step boundary, then it is cancelled."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""Minimum seconds to cancel a turn and, before that, to drain it to a step boundary, in a process with little time."""


CANCEL_SECONDS = 0.5
"""Maximum wait for the end of canceled turns."""


class Deadline(Struct, frozen=True):
    """Deadline for the turns of one process, and events to stop them earlier."""

    until: datetime | None = None
    """End of the process, None if it is unknown."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to suspend running turns before the deadline."""
    grace: float | None = None
    """Seconds after `now` for a turn to reach a step boundary; None for the time computed by `margins`."""
    leave: asyncio.Future[None] | None = None
    """Future, completed before the process stops: streams then end, and blocking sends return the current task."""


def margins(deadline: Deadline, now: datetime) -> tuple[float, float]:
    """Return two margins in seconds before the deadline: to drain a turn to a step boundary, and to cancel it.

    In a process with little time, the agent gets most of it. But the turn is always cancelled before the runtime stops
    the process: otherwise the next holder would have to wait until the lease expires.
    """
    if deadline.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (deadline.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut


class BackgroundTurns(set[asyncio.Task[None]]):
    """Turns that a request has started in this process. They may run longer than the request."""

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a turn's coroutine in an asyncio task, and log its failure."""
        task = asyncio.ensure_future(coroutine)
        self.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "A background task failed; the lease of its turn runs out, and the turn runs again.", exc_info=error
            )

    async def wait(self) -> None:
        """Wait until all turns have ended, including turns started during the wait."""
        while self:
            await asyncio.wait(set(self))

    async def cancel(self) -> None:
        """Cancel the turns, and wait shortly until they have recorded their metrics."""
        for task in self:
            task.cancel()
        if self:
            await asyncio.wait(set(self), timeout=CANCEL_SECONDS)


# ── Heartbeat ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# Threads renew the lease of a running turn, because an agent's code may block the event loop.

WATCH_SECONDS = 1.0
"""Shortest pause between two checks of a lease. After a cancel in another process, a turn may run this long."""

LOOKS_PER_SECOND = 20
"""Number of lease checks per second in one process. With many turns each lease is checked less often."""

_beating: set[int] = set()
"""Ids of the running heartbeats of this process."""


class LeaseSignal(Protocol):
    """Signal of a lost lease: `lost` completes when this process loses the right to run the turn."""

    lost: asyncio.Future[None]


class LeaseKeeper(Protocol):
    """Factory of context managers that renew a lease (right to run a turn) while its turn runs."""

    def __call__(
        self, store: TaskStore, work_queue: WorkQueue, lease: Lease, *, renew_seconds: float, wake_up_seconds: float
    ) -> AbstractAsyncContextManager[LeaseSignal]:
        """Return a context manager that renews this lease, such as a `Heartbeat`."""
        ...


def watch_seconds() -> float:
    """Return the seconds between two checks of one lease. The pause grows with the number of leases in this process."""
    return max(WATCH_SECONDS, len(_beating) / LOOKS_PER_SECOND)


class LeaseRenewal:
    """Renewal and checks of one lease (right to run a turn), in steps. It has no thread: its caller waits between them.

    The first step enqueues a delayed wake-up message that arrives after the lease could expire. If this process dies,
    the receiver of the message takes over the turn. A turn that ends before its first step enqueues no message. A
    retried turn (`tries` > 1) has its first step at once, because this process may die early too.
    """

    def __init__(
        self,
        store: TaskStore,
        work_queue: WorkQueue,
        lease: Lease,
        *,
        renew_seconds: float,
        wake_up_seconds: float,
        watch: Callable[[], float] = watch_seconds,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Renew every `renew_seconds`, check every `watch()` seconds, delay the message by `wake_up_seconds`."""
        self._store, self._work_queue, self._lease = store, work_queue, lease
        self._renew_seconds, self._wake_up_seconds, self._watch = renew_seconds, wake_up_seconds, watch
        self._now, self._renewed_at, self._enqueued = now, now(), False
        self._hurries = lease.turn.tries > 1

    @property
    def pause(self) -> float:
        """Seconds to wait before the next call of `once`."""
        return 0.0 if self._hurries else min(self._watch(), self._renew_seconds)

    def once(self) -> bool:
        """Renew the lease if a renewal is due, otherwise check it. Return False if the lease is lost.

        The call blocks. After a StoreError the lease is regarded as held, and the next step tries again.
        """
        # Read the clock instead of adding up the pauses, because a check takes seconds if the store is slow.
        at, self._hurries = self._now(), False
        # Renew 0.01 s early, to allow for rounding errors and for a pause that ends a little early.
        renews = at - self._renewed_at > self._renew_seconds - 0.01
        try:
            held = self._store.renew(self._lease) if renews else self._store.holds(self._lease)
            if held and not self._enqueued:
                message = WakeUp(self._lease.context, self._lease.fence)
                self._work_queue.enqueue_from_thread(message, delay=self._wake_up_seconds)
                self._enqueued = True
        except StoreError as error:
            logger.warning("The lease could not be renewed or checked; the next step tries again: %s", error)
            return True
        if renews:
            self._renewed_at = at
        return held


class Heartbeat:
    """Context manager that renews a lease (right to run a turn) in threads. Completes `lost` if the lease is lost."""

    def __init__(
        self, store: TaskStore, work_queue: WorkQueue, lease: Lease, *, renew_seconds: float, wake_up_seconds: float
    ) -> None:
        self._renewal = LeaseRenewal(
            store, work_queue, lease, renew_seconds=renew_seconds, wake_up_seconds=wake_up_seconds
        )
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        # Copy the context variables, so that the log records of a step have the turn's labels.
        self._context, self._name = copy_context(), f"lease-{lease.turn.id}"
        self.stopped = False
        """True after the end of the turn or the loss of the lease."""

    async def __aenter__(self) -> Self:
        """Schedule the first step."""
        _beating.add(id(self))
        self.schedule()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the steps without waiting. A renewal in progress does no harm: the store compares the fence."""
        _beating.discard(id(self))
        self.stopped = True

    def schedule(self) -> None:
        """Schedule the next step."""
        _timer.schedule(self._renewal.pause, self)

    def start_step(self) -> None:
        """Run the next step in a new thread, because the store may take seconds to answer."""
        threading.Thread(target=self._context.run, args=(self._step,), name=self._name, daemon=True).start()

    def _step(self) -> None:
        if self._renewal.once():
            if not self.stopped:
                self.schedule()
        elif not self.stopped:
            self.stopped = True
            self._loop.call_soon_threadsafe(self.lost.set_result, None)


class _Timer:
    """One thread that starts the steps of all heartbeats of this process when they are due.

    The step itself runs in another thread, so a short turn without a step needs no thread of its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, weakref.ref[Heartbeat]]] = []
        """Heap of the scheduled steps: time, number, heartbeat. A weak reference does not keep an ended turn's data."""
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def schedule(self, seconds: float, heartbeat: Heartbeat) -> None:
        """Start the heartbeat's next step after this number of seconds, unless the heartbeat is stopped first."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), weakref.ref(heartbeat)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease-timer", daemon=True)
                self._thread.start()
            elif self._due[0][2]() is heartbeat:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while (heartbeat := self._expired()) is None:
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
            try:
                heartbeat.start_step()
            except RuntimeError:
                logger.exception("No thread could be started to renew a lease; the next step tries again.")
                heartbeat.schedule()
            del heartbeat

    def _expired(self) -> Heartbeat | None:
        """Remove and return the first heartbeat if its step is due. Also remove ended heartbeats before it.

        Without the removal the thread would wake for each ended turn and interrupt the event loop.
        """
        while self._due:
            at, _, reference = self._due[0]
            heartbeat = reference()
            runs = heartbeat is not None and not heartbeat.stopped
            if runs and at > time.monotonic():
                return None
            heapq.heappop(self._due)
            if runs:
                return heartbeat
        return None


def _renew_timer() -> None:
    """Create the timer again in a forked process, because threads do not survive a fork."""
    global _timer
    _timer = _Timer()
    _beating.clear()


_timer = _Timer()
os.register_at_fork(after_in_child=_renew_timer)


# ── Exits ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# The guard covers an agent's code and every asyncio task that the code starts. asyncio passes SystemExit and
# KeyboardInterrupt from a task directly to the event loop, past the awaiting callers. Only the task's own coroutine can
# catch them. So during a turn, a task factory wraps the coroutine of every task that the agent creates.

PROCESS_EXITS = (SystemExit, KeyboardInterrupt)
"""Exceptions that asyncio passes straight to the event loop."""

_EXIT_MESSAGE = "The agent tried to end its process."

_in_a_turn: ContextVar[bool] = ContextVar("aion_in_a_turn", default=False)
"""True while an agent's code runs. The task factory wraps only tasks created by such code."""


@contextmanager
def exit_guard() -> Iterator[None]:
    """Context manager that raises AgentFailed if its block, or an asyncio task of its block, exits the process."""
    loop = asyncio.get_running_loop()
    previous = loop.get_task_factory()
    factory = previous if isinstance(previous, _TaskFactory) else _TaskFactory(previous)
    loop.set_task_factory(factory)
    factory.turns += 1
    token = _in_a_turn.set(True)
    try:
        yield
    except PROCESS_EXITS as error:
        raise AgentFailed(_EXIT_MESSAGE) from error
    finally:
        # Ignore the ValueError of `reset`: the garbage collector may close an unfinished turn in another context.
        with suppress(ValueError):
            _in_a_turn.reset(token)
        factory.turns -= 1
        # Restore the previous factory, unless other code has wrapped this factory. A wrapped factory stays, but no
        # longer guards asyncio tasks.
        if not factory.turns and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


class _TaskFactory:
    """Task factory for an event loop during turns. It guards the agents' tasks, then calls the previous factory."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.turns = 0
        """Number of running turns. After the last turn, the event loop gets its previous factory back."""

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        guarded = _GuardedCoroutine(work) if _in_a_turn.get() and asyncio.iscoroutine(work) else work
        if self.before is not None:
            return self.before(loop, guarded, **options)
        return asyncio.Task(guarded, loop=loop, **options)


class _GuardedCoroutine(Coroutine[Any, Any, Any]):
    """Coroutine that runs another coroutine and replaces its SystemExit or KeyboardInterrupt with AgentFailed."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        # Copy the name of the coroutine, because the `repr` of an asyncio task shows it.
        self.__qualname__ = getattr(work, "__qualname__", type(work).__qualname__)

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except PROCESS_EXITS as error:
            raise AgentFailed(_EXIT_MESSAGE) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except PROCESS_EXITS as raised:
            raise AgentFailed(_EXIT_MESSAGE) from raised
        finally:
            # Delete this variable to avoid a reference cycle: the error's traceback refers to this frame, and the frame
            # would refer to the error.
            del error

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()


# ── Exception groups ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def ungrouped(*classes: type[Exception]) -> Iterator[None]:
    """Context manager: if its block raises an exception group with an error of these classes, raise this error instead.

    The agent's code may call the store in an `asyncio.TaskGroup`, and ADK runs parallel agents in one. If the group has
    errors of the agent too, the turn runs again, and fails then if the agent fails again.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        if (error := _error_in(group, classes)) is None:
            raise
        raise error from error.__cause__  # keep the cause for the log, such as boto3's error


def _error_in(error: BaseException, classes: tuple[type[Exception], ...]) -> BaseException | None:
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, classes) else None
    return next((found for each in error.exceptions if (found := _error_in(each, classes)) is not None), None)
