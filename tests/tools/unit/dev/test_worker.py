"""Worker of the development server: the API key that it makes, and agents that load slowly."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from aion_core.settings import Settings
from aion_tools.dev.worker import KEY_DAYS, _developer_header, _load_agent
from aion_tools.operator.bootstrap import build_keys

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
