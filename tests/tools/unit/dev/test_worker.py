"""Worker of the development server, with a real listener and a pipe to its supervisor."""

import asyncio
import multiprocessing
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aion_core.settings import Settings
from aion_tools.dev.messages import Serving, Stop, Stopping
from aion_tools.dev.worker import KEY_DAYS, _developer_header, _load_agent, _Worker
from aion_tools.operator.bootstrap import build_keys


async def app(scope: Any, receive: Any, send: Any) -> None:
    """ASGI app that only completes the lifespan protocol."""
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


async def received(connection: Any) -> Any:
    while not connection.poll():
        await asyncio.sleep(0)
    return connection.recv()


async def test_stopping_worker_closes_its_listening_socket_immediately() -> None:
    """uvicorn alone closes its listener up to 0.1 s later; until then the old code would answer new requests."""
    ours, theirs = multiprocessing.Pipe()
    listener = socket.create_server(("127.0.0.1", 0))
    worker = _Worker(listener, theirs)
    serving = asyncio.create_task(worker._serve(app))
    assert await received(ours) == Serving()
    assert listener.fileno() != -1
    worker._commands.stop.set_result(Stop(has_successor=True))
    assert await received(ours) == Stopping()
    assert listener.fileno() == -1
    await serving


AGENTS = """
aion:
  security: {schemes: {key: {type: api-key}}, require: [{key: [chat]}]}
  agents:
    orders: {path: a.py, security: {schemes: {key: {type: api-key, header: X-Orders-Key}}}}
    helper:
      path: b.py
      default: true
      skills: [{id: refund, name: Refund, description: Refunds., require: [{key: [refund]}]}]
"""


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AION_STORE", "sqlite")
    monkeypatch.setenv("AION_SQLITE_FOLDER", str(tmp_path))
    config = tmp_path / "aion.yaml"
    config.write_text(AGENTS)
    return config


def test_api_key_made_by_dev_server_expires_after_thirty_days(config: Path) -> None:
    header = _developer_header(config, ())
    (stored,) = asyncio.run(build_keys(Settings.from_environ()).all())
    assert stored.last4 == header[-4:]
    assert stored.expires == stored.created.replace(microsecond=0) + timedelta(days=KEY_DAYS)


def test_api_key_made_by_dev_server_permits_restricted_skills(config: Path) -> None:
    _developer_header(config, ())
    (stored,) = asyncio.run(build_keys(Settings.from_environ()).all())
    assert stored.scopes == {"chat", "refund"}


@pytest.mark.parametrize(("failed", "name"), [((), "X-API-Key"), (("helper",), "X-Orders-Key")])
def test_printed_header_is_of_agent_in_example(config: Path, failed: tuple[str, ...], name: str) -> None:
    assert _developer_header(config, failed).startswith(f"{name}: aion_")


def test_dev_server_names_agent_that_loads_slowly(caplog: pytest.LogCaptureFixture) -> None:
    class SlowAgent:
        def load(self) -> None:
            while not caplog.records:
                time.sleep(0.001)

    assert _load_agent("helper", SlowAgent(), slow_seconds=0) is None
    assert "The agent 'helper' is still being loaded" in caplog.text
