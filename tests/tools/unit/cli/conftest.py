"""Fixtures of the operators' commands: a function that runs a command, and a conversation on the emulated table."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aion_tools.dev.data_folder import DataFolder, RunningServer
from aion_tools.stack.stack import LocalStack
from tests.support import operating
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand
from tests.support.stores import dynamodb_store


@pytest.fixture(scope="module")
def moto(moto: LocalStack) -> Iterator[LocalStack]:
    """Return the stack. A receive from an empty queue returns at once instead of waiting."""
    with moto.emulator.no_long_polls():
        yield moto


@pytest.fixture(scope="module")
def stack(moto: LocalStack) -> LocalStack:
    return moto


@pytest.fixture
def run(moto: LocalStack, request: pytest.FixtureRequest) -> RunCommand:
    """Return a function that runs the subcommand named by the module's COMMAND, or `aion` itself."""
    command = getattr(request.module, "COMMAND", ())
    run = operating.runs(moto.environment("ApiFunction"))
    return lambda *arguments, **options: run(*command, *arguments, **options)


@pytest.fixture
def chat(moto: LocalStack, clock: ManualClock) -> StoreConversation:
    return StoreConversation(dynamodb_store(moto, clock), clock)


@pytest.fixture
def run_in_project(moto: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in `tmp_path`, the folder of a development server with the emulated table."""
    (tmp_path / ".aion").mkdir()
    server = RunningServer(os.getpid(), "http://127.0.0.1:8000", moto.endpoint, moto.environment("ApiFunction"))
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
