"""`aion dev` before its server starts: arguments, port, template and environment variables."""

import re
import socket
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.discovery.discover import discover, project_above
from aion_tools.cli.dev import _environment, _greeter, _listen, agents_variables
from aion_tools.dev.messages import AgentsLoaded
from tests.support import operating
from tests.support.server import ROOT

GRAPH = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()\n"


def test_dev_server_socket_names_tcp_so_chunks_are_not_delayed() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol, so the server must name it."""
    with _listen(0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.proto == socket.IPPROTO_TCP


def test_taken_port_error_names_port_option() -> None:
    named = pytest.raises(ConfigurationError, match=r"`aion dev --port 8001` \(with make")
    with operating.taken_port() as port, named, _listen(port):
        pass


@pytest.mark.parametrize("is_wanted", [True, False])
def test_open_option_opens_browser_at_server_url(
    is_wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {agents: {mine: {path: 'agent.py:graph'}}}")
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    url = "http://127.0.0.1:8000"
    greet = _greeter(tmp_path / "aion.yaml", url, "memory", tmp_path, None, opens_browser=is_wanted)
    assert f"Console for browsers: {url}/" in greet(AgentsLoaded(("mine",), {}), "")
    assert opened == ([url] if is_wanted else [])


@pytest.mark.parametrize("page", ["console", "development"])
def test_docs_pages_state_actual_lease_time_of_development_server(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    lease = _environment("sqlite", Path(), "", {})["AION_LEASE_SECONDS"]
    assert re.findall(r"leases? expires? \((\d+)\s+seconds", text) == [lease]


@pytest.mark.parametrize("above", ["", ".git", "pyproject.toml"])
def test_search_for_aion_yaml_stops_at_nearest_project_root(above: str, tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text("")
    folder = tmp_path / "one" / "two"
    folder.mkdir(parents=True)
    if above:
        (tmp_path / "one" / above).write_text("")
    assert project_above(folder) == (None if above else tmp_path)
    assert project_above(tmp_path) is None


def test_environment_variable_overrides_value_in_dotenv_file_of_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / ".env").write_text("MODEL=small\nKEY=from-file\n")
    found = discover(tmp_path)
    assert agents_variables(found, {"KEY": "exported"}) == ({"MODEL": "small"}, [])
