"""Tools of a real MCP server, by stdio and by HTTP."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aion_tools.testing import serve

HERE = Path(__file__).parent


@contextmanager
def server_by_http() -> Iterator[str]:
    """Run `python server.py http` on a free port, and yield the URL of its MCP endpoint."""
    process = subprocess.Popen(
        [sys.executable, HERE / "server.py", "http"], env={**os.environ, "PORT": "0"}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        found = next(found for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        yield f"{found[0]}/mcp"
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.deep
async def test_agent_calls_mcp_tool_by_stdio() -> None:
    async with serve(HERE / "aion.yaml") as client:
        reply = await client.ask("How many hats?")
        other = await client.ask("How many boots?")
    assert (reply.state, reply.text) == ("completed", "In stock: 3")
    assert (other.state, other.text) == ("completed", "In stock: There is no article boots.")


async def test_agent_calls_mcp_tool_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_by_http() as url:
        monkeypatch.setenv("MCP_URL", url)
        async with serve(HERE / "aion.yaml") as client:
            reply = await client.ask("How many gloves?")
    assert (reply.state, reply.text) == ("completed", "In stock: 12")
