"""Waits of a graph, for a time or a remote agent: interrupts that no client answers."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt
from msgspec import convert, to_builtins

from aion_core.authoring.emit import running_node
from aion_core.engine.agent import Suspended
from aion_core.engine.records import AwaitedCall
from aion_core.engine.turn.sleeps import TurnSleeps

UNTIL = "aion:waitsUntil"
"""Key of a wait's value: the time at which the graph goes on, in ISO 8601."""

CALL = "aion:waitsForCall"
"""Key of a wait's value: the call of a remote agent for whose answer the graph waits, an AwaitedCall as JSON."""


class GraphSleeps:
    """Sleeps of the code of one turn. They may come from any thread and event loop."""

    def __init__(self, sleeps: TurnSleeps | None, turn_id: str, *, may_suspend: bool) -> None:
        """With `may_suspend`, a checkpointer stores the graph's state, so that another process can go on with it."""
        self._sleeps, self._turn_id, self._may_suspend = sleeps, turn_id, may_suspend
        self._loop = asyncio.get_running_loop()
        self._made: dict[tuple[str, str], int] = {}
        """Number of the sleeps of each run of a node, by the run's attempt and what they have in common."""

    async def sleep(self, until: datetime | timedelta, key: str) -> None:
        """Sleep, or suspend the graph. See `aion_core.authoring.sleeping.sleep`."""
        if self._sleeps is None:
            raise RuntimeError("sleep() needs the store of a server: this turn has none.")
        node = running_node()
        if asyncio.get_running_loop() is self._loop:
            at = await self._sleep(self._sleeps, node, until, key)
        else:
            elsewhere = self._sleep(self._sleeps, node, until, key)
            at = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(elsewhere, self._loop))
        if at is not None:
            _suspend(at)

    async def _sleep(self, sleeps: TurnSleeps, node: str, until: datetime | timedelta, key: str) -> datetime | None:
        """Return after the sleep, or return its end if the graph is to be suspended until then."""
        run, _, _ = node.rpartition("#")
        # A time may be computed anew in each run of the code, but a duration is the same.
        what = f"{key}/{until.total_seconds()}" if isinstance(until, timedelta) else key
        number = self._made[node, what] = self._made.get((node, what), -1) + 1
        end = sleeps.after(until) if isinstance(until, timedelta) else until
        at = await sleeps.begin(f"{run or self._turn_id}/{what}/{number}", end)
        return None if await sleeps.pass_until(at, may_suspend=self._may_suspend) else at


def _suspend(at: datetime) -> NoReturn:
    """Interrupt the graph at this point. No answer resumes it: when the time has come, the code goes past this point."""
    time = at.astimezone(UTC).isoformat()
    raise _interrupt({UNTIL: time}, time)


def call_interrupt(call: AwaitedCall) -> GraphInterrupt:
    """Return the exception that interrupts the graph until a remote agent has answered. Then the code finds the answer."""
    return _interrupt({CALL: to_builtins(call)}, call.key)


def _interrupt(value: Mapping[str, Any], key: str) -> GraphInterrupt:
    # LangGraph finds the answers to a node's interrupts by their order. Make the exception instead of calling
    # `interrupt`, so that a wait takes no place among the author's own.
    place = get_config()["configurable"]["checkpoint_ns"]
    return GraphInterrupt((Interrupt.from_ns(value, f"{place}|aion:wait|{key}"),))


def is_wait(interrupt: Interrupt) -> bool:
    """Return True for an interrupt that waits for a time or a remote agent, and not for an answer of the client."""
    return isinstance(interrupt.value, Mapping) and (UNTIL in interrupt.value or CALL in interrupt.value)


def questions_in(interrupts: Sequence[Interrupt]) -> list[Interrupt]:
    """Return the interrupts that wait for an answer of the client."""
    return [each for each in interrupts if not is_wait(each)]


def suspended(interrupts: Sequence[Interrupt]) -> Suspended:
    """Return the end of a turn whose graph waits, and asks nothing. The turn resumes when the first of the waits is over."""
    times = [datetime.fromisoformat(each.value[UNTIL]) for each in interrupts if UNTIL in each.value]
    calls = [convert(each.value[CALL], AwaitedCall) for each in interrupts if CALL in each.value]
    until = min(times, default=None)
    what = [f"for {name}" for name in dict.fromkeys(call.remote for call in calls)]
    what += [f"until {until:%Y-%m-%d %H:%M:%S} UTC"] if until is not None else []
    ids = " ".join(sorted(each.id for each in interrupts))
    key = hashlib.sha256(ids.encode()).hexdigest()[:32]
    return Suspended(key, f"Waiting {' and '.join(what)}.", until, calls)
