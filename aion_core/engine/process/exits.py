"""Guard against agents' code that ends the process: SystemExit and its like become failures of the turn."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from aion_core.errors import AgentFailed

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
