"""Marks in the events of a RemoteA2aAgent: which call an event belongs to, and what it says of the call. Pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from msgspec import Struct

MARK = "aion:remote"
"""Key of the mark in an ADK event's metadata."""


class Mark(Struct, frozen=True, omit_defaults=True):
    """Mark of an ADK event that a remote agent's response has become."""

    call: str
    """Key of the call."""
    heard: str = ""
    """Id of the message or artifact in the response."""
    ended: bool = False
    """True if the event is the last of the call: the remote agent has answered."""
    asks: bool = False
    """True if the event is the last of the call: the remote agent asks a question."""
    failure: str = ""
    """Reason why the remote agent has not answered, for the client."""


def mark_of(event: Event) -> Mark | None:
    """Return the event's mark, if it has one."""
    found = (event.custom_metadata or {}).get(MARK)
    return msgspec.convert(found, Mark) if isinstance(found, dict) else None


def mark(event: Event, given: Mark) -> None:
    """Add the mark to the event."""
    event.custom_metadata = {**(event.custom_metadata or {}), MARK: msgspec.to_builtins(given)}


def is_answer(event: Event) -> bool:
    """Return True for the event with which a call of a remote agent has ended, and not failed."""
    found = mark_of(event)
    return found is not None and found.ended and not found.failure


class EarlierCalls:
    """Calls at one place of the agent's code, read from the events of the session."""

    def __init__(self, place: str, events: Iterable[Event], agent: BaseAgent) -> None:
        """`place` begins the keys of the calls of `agent` at this place; a number follows."""
        self._place, self._agent = place, agent
        self._events = list(events)
        self._marks = [
            (index, found)
            for index, event in enumerate(self._events)
            if (found := mark_of(event)) is not None and found.call.startswith(place)
        ]

    @property
    def last(self) -> Event | None:
        """Last event of the call that is still to be reported to the agent above: its answer, question or failure.

        None if there is no call, if it goes on, or if the agent above has gone on since.
        """
        if not self._marks:
            return None
        index, found = self._marks[-1]
        if not (found.ended or found.asks) or self._has_gone_on(self._events[index + 1 :]):
            return None
        return self._events[index]

    @property
    def open(self) -> str:
        """Key of the call that an earlier attempt has begun and that has not ended; "" without one."""
        if not self._marks:
            return ""
        _, found = self._marks[-1]
        return "" if found.ended or found.asks else found.call

    @property
    def next(self) -> str:
        """Key of the next call."""
        ended = {found.call for _, found in self._marks if found.ended or found.asks}
        return f"{self._place}{len(ended)}"

    def heard(self, call: str) -> set[str]:
        """Return the ids of the messages and artifacts that events of the call have recorded."""
        return {found.heard for _, found in self._marks if found.call == call and found.heard}

    def _has_gone_on(self, since: Sequence[Event]) -> bool:
        """Return True if a workflow agent above has recorded a later step, or if a custom agent above may have gone on."""
        above = list(_above(self._agent))
        if not all(isinstance(each, LlmAgent | SequentialAgent | LoopAgent | ParallelAgent) for each in above):
            return True
        steps = {each.name for each in above if isinstance(each, SequentialAgent | LoopAgent)}
        return any(event.author in steps and event.actions.agent_state is not None for event in since)


def _above(agent: BaseAgent) -> Iterator[BaseAgent]:
    above = agent.parent_agent
    while above is not None:
        yield above
        above = above.parent_agent
