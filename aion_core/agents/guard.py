"""Keeps agent code that would end the process from ending the server, and all that others have under way in it.

Whatever ends so fails, as what raises does. That is nodes, and whatever they start: tools, tasks, conditional edges,
subgraphs. Where such an error leaves an asyncio task, asyncio lets it through to the event loop, whoever awaits the
task: the only place before that is the task itself, so while a turn runs the loop makes its tasks by a factory of ours.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from aion_core.errors import AgentFailed
from aion_core.ports import Emission

ENDINGS = (SystemExit, KeyboardInterrupt)
"""What asyncio lets through to the event loop, whatever stands between."""

_SENTENCE = "The agent tried to end its process."

_in_a_turn: ContextVar[bool] = ContextVar("aion_in_a_turn", default=False)
"""Whether the code that runs is an agent's: all other tasks of the loop are made as ever."""


@contextmanager
def guarded() -> Iterator[None]:
    """Let nothing that is run, or started as a task, within end the process; raises AgentFailed in its place."""
    loop = asyncio.get_running_loop()
    there = loop.get_task_factory()
    factory = there if isinstance(there, _TaskFactory) else _TaskFactory(there)
    loop.set_task_factory(factory)
    factory.turns += 1
    token = _in_a_turn.set(True)
    try:
        yield
    except ENDINGS as error:
        raise AgentFailed(_SENTENCE) from error
    finally:
        # An async generator may be closed by another task than the one it began in; the value is not set in that one.
        with suppress(ValueError):
            _in_a_turn.reset(token)
        factory.turns -= 1
        # Where somebody has put another factory around it since, that one stays; ours only passes on then.
        if not factory.turns and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


async def guarded_run(emissions: AsyncGenerator[Emission, None]) -> AsyncGenerator[Emission, None]:
    """Yield what an agent's turn yields, which ends no process."""
    with guarded():
        async with aclosing(emissions):
            async for emission in emissions:
                yield emission


class _TaskFactory:
    """Makes a loop's tasks while turns run, by the factory that was there before; those of the turns do not let out."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.turns = 0
        """How many are under way: when the last has ended, the loop is as it was."""

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        guarded = _Staying(work) if _in_a_turn.get() and asyncio.iscoroutine(work) else work
        if self.before is not None:
            return self.before(loop, guarded, **options)
        return asyncio.Task(guarded, loop=loop, **options)


class _Staying(Coroutine[Any, Any, Any]):
    """A coroutine in all that it does, but that it fails where it would end the process."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        # By which asyncio tells of a task.
        self.__qualname__ = getattr(work, "__qualname__", type(work).__qualname__)

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except ENDINGS as error:
            raise AgentFailed(_SENTENCE) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except ENDINGS as raised:
            raise AgentFailed(_SENTENCE) from raised

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()
