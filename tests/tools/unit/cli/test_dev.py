"""`aion dev` before its server starts: arguments, port, template and environment variables."""

import socket
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.discovery.discover import discover, project_above
from aion_tools.cli.dev import _listen
from aion_tools.dev.environment import agents_variables
from tests.support import operating

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
