"""Several agents in one app: each at its own path, one also at the root."""

from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap import build_app
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from tests.runtime.unit.web.rest_requests import body, old_body
from tests.support.service import http, send

AGENTS = """
aion:
  agents:
    one: {path: two_agents.py:one, name: One%s}
    two: {path: two_agents.py:two, name: Two%s}
"""
GRAPHS = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def says(text):
    return StateGraph(MessagesState).add_node(text, lambda _: {"messages": [AIMessage(text)]}).add_edge(START, text)


one, two = says("one"), says("two")
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "two_agents.py").write_text(GRAPHS)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml"), "AION_BASE_URL": "https://x.test"}
    return Settings.from_environ(environ)


def write(settings: Settings, *defaults: str) -> None:
    settings.config.write_text(AGENTS % defaults)


def said(answer: Any) -> str:
    """Return the text of an agent's answer in any version."""
    return next(word for word in ("one", "two") if f'"text":"{word}"' in answer.text.replace(" ", ""))


@pytest.mark.parametrize(
    ("defaults", "at_root"), [(("", ""), "one"), (("", ", default: true"), "two"), ((", default: true", ""), "one")]
)
async def test_each_agent_answers_at_its_path(settings: Settings, defaults: tuple[str, str], at_root: str) -> None:
    write(settings, *defaults)
    async with http(build_app(settings)) as client:
        for where, expected in (("/agents/one", "one"), ("/agents/two", "two"), ("", at_root)):
            assert said(await client.post(f"{where}/", json=send())) == expected
            assert said(await client.post(f"{where}/", json=send(method="message/send"))) == expected
            assert said(await client.post(f"{where}/message:send", json=body())) == expected
            assert said(await client.post(f"{where}/red/message:send", json=body())) == expected
            assert said(await client.post(f"{where}/v1/message:send", json=old_body())) == expected
            card = (await client.get(f"{where}/.well-known/agent-card.json")).json()
            assert card["name"] == expected.title()
            assert card["supportedInterfaces"][0]["url"] == f"https://x.test{where}/"
        task = (await client.post("/agents/one/message:send", json=body())).json()["task"]
        assert (await client.get(f"/agents/one/tasks/{task['id']}")).status_code == 200
        assert (await client.get(f"/agents/two/tasks/{task['id']}")).status_code == 404, "another agent's is unknown"
        nobody = await client.post("/agents/three/", json=send())
        assert (nobody.status_code, "/.well-known/manifest.json" in nobody.json()["error"]["message"]) == (404, True)


def test_two_agents_with_default_true_are_refused(settings: Settings) -> None:
    write(settings, ", default: true", ", default: true")
    with pytest.raises(ConfigurationError, match="one, two each have `default: true`"):
        build_app(settings)
