import logging
import threading
from collections.abc import AsyncGenerator

import pytest

from aion_core.agents.loading import load_in_init
from aion_core.errors import AgentLoadError
from aion_core.ports import Emission, TurnRequest


class Loaded:
    """Agent with a given error, or with a slow import."""

    def __init__(self, error: Exception | None = None, until: threading.Event | None = None) -> None:
        self.is_loaded, self._error, self._until = threading.Event(), error, until

    def load(self) -> None:
        if self._until is not None:
            self._until.wait()
        if self._error is not None:
            raise self._error
        self.is_loaded.set()

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        raise NotImplementedError


BROKEN = AgentLoadError("agent.py: no such module", do="Install it.")


def test_init_loads_every_agent() -> None:
    agents = [Loaded(), Loaded()]
    load_in_init(agents)
    assert all(agent.is_loaded.is_set() for agent in agents)


@pytest.mark.parametrize("error", [BROKEN, RuntimeError("at import")])
def test_init_fails_without_any_loaded_agent(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(error)):
        load_in_init([Loaded(error), Loaded(error)])
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_init_continues_beside_a_broken_agent(caplog: pytest.LogCaptureFixture) -> None:
    sound = Loaded()
    load_in_init([Loaded(BROKEN), sound])
    assert sound.is_loaded.is_set()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_worker_starts_with_broken_agents(caplog: pytest.LogCaptureFixture) -> None:
    load_in_init([Loaded(BROKEN)], fails=False)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_init_does_not_wait_for_slow_import(caplog: pytest.LogCaptureFixture) -> None:
    imported = threading.Event()
    slow = Loaded(until=imported)
    with caplog.at_level(logging.WARNING):
        load_in_init([slow], seconds=0)
    assert not slow.is_loaded.is_set()
    assert "takes longer" in caplog.text
    imported.set()
    assert slow.is_loaded.wait(timeout=60)
