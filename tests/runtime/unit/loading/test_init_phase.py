import logging
import threading
from collections.abc import AsyncGenerator

import pytest

from aion_core.engine.agent import Emission, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.errors import AgentLoadError
from aion_core.loading.init_phase import load_in_init


class Loaded:
    """Agent whose `load` raises a given error, or waits until the test continues it."""

    def __init__(self, error: Exception | None = None, until: threading.Event | None = None) -> None:
        self.is_loaded, self._error, self._until = threading.Event(), error, until

    def load(self) -> None:
        if self._until is not None:
            self._until.wait()
        if self._error is not None:
            raise self._error
        self.is_loaded.set()

    def profile(self) -> AgentProfile:
        return UNKNOWN

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        raise NotImplementedError


BROKEN = AgentLoadError("agent.py: no such module", do="Install it.")


def test_startup_loads_every_agent() -> None:
    agents = {"one": Loaded(), "two": Loaded()}
    load_in_init(agents)
    assert all(agent.is_loaded.is_set() for agent in agents.values())


@pytest.mark.parametrize("error", [BROKEN, RuntimeError("at import")])
def test_startup_fails_if_no_agent_loads(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(error)):
        load_in_init({"one": Loaded(error), "two": Loaded(error)})
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_startup_continues_with_one_broken_agent(caplog: pytest.LogCaptureFixture) -> None:
    sound = Loaded()
    load_in_init({"broken": Loaded(BROKEN), "sound": sound})
    assert sound.is_loaded.is_set()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_worker_starts_although_all_agents_are_broken(caplog: pytest.LogCaptureFixture) -> None:
    load_in_init({"broken": Loaded(BROKEN)}, fails=False)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_startup_does_not_wait_for_slow_import(caplog: pytest.LogCaptureFixture) -> None:
    imported = threading.Event()
    slow = Loaded(until=imported)
    with caplog.at_level(logging.WARNING):
        load_in_init({"slow": slow, "next": Loaded()}, seconds=0)
    assert not slow.is_loaded.is_set()
    [warning] = [record for record in caplog.records if "takes longer" in record.message]
    assert warning.__dict__["agent"] == "slow"
    imported.set()
    assert slow.is_loaded.wait(timeout=60)
