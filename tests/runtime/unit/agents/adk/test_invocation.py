"""Work of the adapter for each event of a long ADK turn."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent, LoopAgent
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService, Session

from tests.support.adk import DecidingLlm, answer_text, ask, served, text_event, yielding_agent
from tests.support.service import http, parts


class CountedEvents(list[Event]):
    """Events of a session that count how many of them aion's code reads."""

    reads = 0

    def __iter__(self) -> Iterator[Event]:
        return self._counted(super().__iter__())

    def __reversed__(self) -> Iterator[Event]:
        return self._counted(super().__reversed__())

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return list(self._counted(iter(found))) if isinstance(index, slice) else found

    def _counted(self, events: Iterator[Event]) -> Iterator[Event]:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals["__name__"] == __name__:
            frame = frame.f_back
        ours = frame.f_globals["__name__"].startswith("aion_core")
        return self._counting(events) if ours else events

    @classmethod
    def _counting(cls, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            CountedEvents.reads += 1
            yield event


class CountedSessions(InMemorySessionService):
    """Session service with counted reads of its sessions' events."""

    async def get_session(self, **arguments: Any) -> Session | None:
        return self._counted(await super().get_session(**arguments))

    async def create_session(self, **arguments: Any) -> Session:
        created = self._counted(await super().create_session(**arguments))
        assert created is not None
        return created

    def _counted(self, session: Session | None) -> Session | None:
        if session is not None:
            session.events = CountedEvents(session.events)
        return session


def custom() -> Any:
    return yielding_agent(lambda ctx: text_event("Said."))


def with_model() -> Any:
    return LlmAgent(name="says", model=DecidingLlm(decide=lambda seen: ["Said."]), include_contents="none")


@pytest.mark.parametrize("make", [custom, with_model])
async def test_adapter_reads_each_event_of_loop_few_times(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop stores about three events in each of its iterations. The adapter must not read all of them after each."""
    iterations = 40
    monkeypatch.setattr(CountedEvents, "reads", 0)
    sessions = CountedSessions()
    root = LoopAgent(name="loop", max_iterations=iterations, sub_agents=[make()])
    async with http(parts(served(root, sessions)).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == "Said."
    assert 0 < CountedEvents.reads < 8 * iterations
