"""What `aion dev` makes of its arguments before it starts anything."""

import socket
from pathlib import Path

import pytest

from aion_core.agents.discovery import discover
from aion_core.cli.dev import _listen, agents_variables, find_template
from aion_core.shipped import shipped

GRAPH = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()\n"


def test_connections_send_each_chunk_at_once() -> None:
    """asyncio sets TCP_NODELAY where the socket's protocol is named, which it is not by default."""
    with _listen(0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("text", "is_own"), [("Resources: {ApiFunction: {}}", True), ("Resources: {Other: {}}", False)]
)
def test_template_of_the_project_goes_first(tmp_path: Path, text: str, is_own: bool) -> None:
    assert find_template(tmp_path) == shipped() / "template.yaml"
    own = tmp_path / "template.yaml"
    own.write_text(text)
    assert find_template(tmp_path) == (own if is_own else shipped() / "template.yaml")


def test_environment_goes_before_dotenv_of_a_found_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / ".env").write_text("MODEL=small\nKEY=from-file\n")
    found = discover(tmp_path)
    assert agents_variables(found, {"KEY": "exported"}) == ({"MODEL": "small"}, [])
