"""Fixtures of the operators' commands: a function that runs a command, and a conversation on the table that it reads."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aion_core.bootstrap.stores import build_stores
from aion_core.settings import Settings
from aion_tools.dev.data_folder import DataFolder, RunningServer
from aion_tools.stack.stack import LocalStack
from tests.support import operating, pushes
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand
from tests.support.pushes import Pushes


@pytest.fixture(scope="module")
def moto(moto: LocalStack) -> Iterator[LocalStack]:
    """Return the stack. A receive from an empty queue returns at once instead of waiting."""
    with moto.emulator.no_long_polls():
        yield moto


@pytest.fixture(scope="module")
def stack(moto: LocalStack) -> LocalStack:
    return moto


@pytest.fixture
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a deployment in SQLite files, or that of the stack if the test asks for `moto`."""
    if "moto" in request.fixturenames:
        emulated: LocalStack = request.getfixturevalue("moto")
        return emulated.environment("ApiFunction")
    return {"AION_SQLITE_FOLDER": str(tmp_path / "store"), "AION_PUSH": "on"}


@pytest.fixture
def run(environ: dict[str, str], request: pytest.FixtureRequest) -> RunCommand:
    """Return a function that runs the subcommand named by the module's COMMAND, or `aion` itself."""
    command = getattr(request.module, "COMMAND", ())
    run = operating.runs(environ)
    return lambda *arguments, **options: run(*command, *arguments, **options)


@pytest.fixture
def push(environ: dict[str, str], clock: ManualClock, request: pytest.FixtureRequest) -> Pushes:
    """Return a conversation on the deployment's table, with its push configs."""
    if "moto" in request.fixturenames:
        return pushes.on_table(request.getfixturevalue("moto"), clock)
    stores = build_stores(Settings.from_environ({"AION_STORE": "sqlite", **environ}), clock)
    assert stores.push is not None
    return Pushes(StoreConversation(stores.tasks, clock), stores.push.configs, clock, stores.resources.table)


@pytest.fixture
def chat(push: Pushes) -> StoreConversation:
    return push.chat


@pytest.fixture
def run_in_project(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in `tmp_path`, the folder of a development server of this deployment."""
    (tmp_path / ".aion").mkdir()
    server = RunningServer(os.getpid(), "http://127.0.0.1:8000", environ.get("AWS_ENDPOINT_URL", ""), environ)
    DataFolder(tmp_path / ".aion").announce(server)
    monkeypatch.chdir(tmp_path)
    return operating.runs({})


@pytest.fixture
def hold_request(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Return a function that holds the request of this number until the next one, of an operation of AWS.

    A command that sends these requests one after the other fails.
    """

    def hold_request(operation: str, number: int) -> None:
        count, concurrent = itertools.count(1), threading.Event()

        def hold(**_: object) -> None:
            match next(count) - number:
                case 0:
                    assert concurrent.wait(60)
                case 1:
                    concurrent.set()

        operating.hook(monkeypatch, f"before-call.{operation}", hold)

    return hold_request
