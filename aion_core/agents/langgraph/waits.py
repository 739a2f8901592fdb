"""Waits of a graph, for a time or a remote agent: interrupts that no client answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt
from msgspec import convert, to_builtins

from aion_core.agents.suspension import suspended
from aion_core.engine.agent import Suspended
from aion_core.engine.records import AwaitedCall

UNTIL = "aion:waitsUntil"
"""Key of a wait's value: the time at which the graph goes on, in ISO 8601."""

CALL = "aion:waitsForCall"
"""Key of a wait's value: the call of a remote agent for whose answer the graph waits, an AwaitedCall as JSON."""


def time_interrupt(until: datetime) -> GraphInterrupt:
    """Return the exception that interrupts the graph until this time. No answer resumes it: the code goes past it."""
    time = until.isoformat()
    return _interrupt({UNTIL: time}, time)


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


def suspended_by(interrupts: Sequence[Interrupt]) -> Suspended:
    """Return the end of a turn whose graph waits, and asks nothing."""
    times = [datetime.fromisoformat(each.value[UNTIL]) for each in interrupts if UNTIL in each.value]
    calls = [convert(each.value[CALL], AwaitedCall) for each in interrupts if CALL in each.value]
    return suspended([each.id for each in interrupts], times, calls)
