import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from aion_core.bootstrap.stores import build_stores
from aion_core.clock import SystemClock
from aion_core.engine.agent_profile import UNKNOWN
from aion_core.loading import lazy_agent
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.settings import Settings
from tests.support.clock import settle
from tests.support.isolated import isolated_imports

ENDLESS = """
import threading
threading.endless_import.set()
threading.continue_import.wait()
"""
EXECUTOR = """
from a2a.server.agent_execution import AgentExecutor
class Mine(AgentExecutor):
    async def execute(self, context, queue): ...
    async def cancel(self, context, queue): ...
agent = Mine()
"""


@pytest.fixture
def endless_import(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Return the events of the import of `ENDLESS`: it sets the first, and waits for the second."""
    begun, continued = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "endless_import", begun, raising=False)
    monkeypatch.setattr(threading, "continue_import", continued, raising=False)
    monkeypatch.setattr(lazy_agent, "OTHER_SECONDS", 0)
    return begun, continued


def test_agent_loads_while_another_import_never_ends(
    tmp_path: Path, endless_import: tuple[threading.Event, threading.Event]
) -> None:
    begun, continued = endless_import
    (tmp_path / "endless_agent.py").write_text(ENDLESS + EXECUTOR)
    (tmp_path / "other_agent.py").write_text(EXECUTOR)
    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    endless, other = (
        lazy_agent.LazyAgent(name, AgentConfig(path=f"{name}.py"), tmp_path, stores.agents)
        for name in ("endless_agent", "other_agent")
    )
    with isolated_imports(tmp_path), ThreadPoolExecutor() as threads:
        loading = threads.submit(endless.load)
        try:
            assert begun.wait(60)
            threads.submit(other.load).result(60)
            assert (other.framework, endless.framework) == ("executor", "")
        finally:
            continued.set()
        loading.result(60)
        assert endless.framework == "executor"


async def test_turns_share_one_thread_for_import_that_never_ends(
    tmp_path: Path, endless_import: tuple[threading.Event, threading.Event]
) -> None:
    """The default executor has at most 32 threads, and a canceled turn cannot stop its thread."""
    begun, continued = endless_import
    (tmp_path / "endless_agent.py").write_text(ENDLESS + EXECUTOR)
    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    endless = lazy_agent.LazyAgent("endless", AgentConfig(path="endless_agent.py"), tmp_path, stores.agents)
    threads = threading.active_count()
    with isolated_imports(tmp_path):
        turns = [asyncio.create_task(endless.loaded()) for _ in range(40)]
        canceled = [asyncio.create_task(anext(endless.run(cast("Any", None)))) for _ in range(40)]
        try:
            await settle()
            assert threading.active_count() == threads + 1
            assert await asyncio.to_thread(begun.wait)
            for turn in canceled:
                turn.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*canceled, return_exceptions=True)
            )
        finally:
            continued.set()
        assert len({id(loaded) for loaded in await asyncio.gather(*turns)}) == 1
        assert endless.framework == "executor"


@pytest.mark.parametrize(
    ("endless_source", "other_source"),
    [
        (ENDLESS + EXECUTOR, "from endless_agent import agent"),
        (ENDLESS + "import other_agent" + EXECUTOR, "import endless_agent" + EXECUTOR),
    ],
    ids=["one way", "each other"],
)
def test_agent_waits_for_slow_import_of_file_that_it_imports(
    tmp_path: Path, endless_import: tuple[threading.Event, threading.Event], endless_source: str, other_source: str
) -> None:
    """An agent's file imports the file of another agent, which is still loading: it must not get a partial module."""
    begun, continued = endless_import
    (tmp_path / "endless_agent.py").write_text(endless_source)
    (tmp_path / "other_agent.py").write_text(other_source)
    endless, other = lazy_agents(tmp_path, "endless_agent.py", "other_agent.py")
    with isolated_imports(tmp_path), ThreadPoolExecutor() as threads:
        loading = threads.submit(endless.load)
        try:
            assert begun.wait(60)
            waiting = in_thread(other.load)
        finally:
            continued.set()
        loading.result(60)
        waiting.result(60)
    assert endless.framework == other.framework == "executor"


async def test_card_waits_for_load_in_another_thread(
    tmp_path: Path, endless_import: tuple[threading.Event, threading.Event]
) -> None:
    """The init phase has begun a slow import: the card waits for its end, and does not import a second time."""
    begun, continued = endless_import
    (tmp_path / "endless_agent.py").write_text(f'"""Helps."""\n{ENDLESS}{EXECUTOR}')
    [agent] = lazy_agents(tmp_path, "endless_agent.py")
    with isolated_imports(tmp_path), ThreadPoolExecutor() as threads:
        loading = threads.submit(agent.load)
        assert await asyncio.to_thread(begun.wait, 60)
        card = asyncio.create_task(agent.wait_until_known())
        await settle()
        assert (card.done(), agent.profile()) == (False, UNKNOWN)
        continued.set()
        await card
        loading.result(60)
        assert agent.profile().card.description == "Helps."
        assert agent.profile() is agent.profile(), "the card of a process does not change"


async def test_cards_wait_for_endless_import_only_once(
    tmp_path: Path, endless_import: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, continued = endless_import
    monkeypatch.setattr(lazy_agent, "KNOWN_SECONDS", 0.05)
    (tmp_path / "endless_agent.py").write_text(ENDLESS + EXECUTOR)
    [agent] = lazy_agents(tmp_path, "endless_agent.py")
    with isolated_imports(tmp_path):
        await agent.wait_until_known()
        monkeypatch.setattr(lazy_agent, "KNOWN_SECONDS", 3600.0)
        await asyncio.gather(*(agent.wait_until_known() for _ in range(3)))
        assert agent.profile() is UNKNOWN
        continued.set()
        await agent.loaded()


def lazy_agents(folder: Path, *paths: str) -> list[lazy_agent.LazyAgent]:
    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    return [lazy_agent.LazyAgent(path, AgentConfig(path=path), folder, stores.agents) for path in paths]


def in_thread(load: Callable[[], None]) -> Future[None]:
    """Run `load` in a thread. Return when it has ended, or waits for an import in another thread."""
    ended: Future[None] = Future()

    def run() -> None:
        try:
            load()
        except Exception as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not ended.done():
        frame = sys._current_frames().get(thread.ident or 0)
        if (
            frame is not None
            and "importlib._bootstrap" in frame.f_code.co_filename
            and frame.f_code.co_name == "acquire"
        ):
            break
        time.sleep(0.001)
    return ended
