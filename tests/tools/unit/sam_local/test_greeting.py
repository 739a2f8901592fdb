"""Start message of `aion sam-local`."""

from pathlib import Path

import pytest

from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_tools.sam_local.greeting import DIFFERENCES, greeting
from aion_tools.sam_local.reach import Reach
from aion_tools.sam_local.server import Running

AGENTS = {"mine": AgentConfig(path="a.py", name="Mine"), "other": AgentConfig(path="b.py")}
BRIDGE = Reach("172.17.0.1", "172.17.0.1", ("172.17.0.0/16",))
DESKTOP = Reach("127.0.0.1", "host.docker.internal", ("192.168.65.254/32",))


def shown(reach: Reach) -> str:
    return greeting(AGENTS, Running(Path("aion.yaml"), "http://127.0.0.1:3001", "http://172.17.0.1:4566", reach))


def test_greeting_names_addresses_and_differences() -> None:
    lines = shown(BRIDGE).splitlines()
    assert lines[0] == "Mine is available at http://127.0.0.1:3001/ and http://127.0.0.1:3001/agents/mine/"
    assert lines[1] == "other is available at http://127.0.0.1:3001/agents/other/"
    assert lines[2] == "Agent card: http://127.0.0.1:3001/.well-known/agent-card.json"
    assert "  curl -sN http://127.0.0.1:3001/ -H 'Content-Type: application/json' \\" in lines
    assert DIFFERENCES in shown(BRIDGE)


@pytest.mark.parametrize(
    ("reach", "told"),
    [
        (BRIDGE, "register http://172.17.0.1:PORT/ and listen on 172.17.0.1 or 0.0.0.0,"),
        (DESKTOP, "register http://host.docker.internal:PORT/."),
    ],
    ids=["bridge", "desktop"],
)
def test_greeting_names_webhooks_address_in_containers(reach: Reach, told: str) -> None:
    assert told in shown(reach)
