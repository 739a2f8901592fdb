"""Modules that a server imports until its first answer: few are allowed, because imports take most of this time."""

import json
import os
import subprocess
import sys

import pytest

from tests.runtime.unit.bootstrap.test_init import AGENT, GRAPH, ROOT

PROGRAM = """
import asyncio, json, sys
from handlers.api import app

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
BODY = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
SCOPE = {
    "type": "http", "method": "POST", "path": "/", "query_string": b"", "client": ("127.0.0.1", 1),
    "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"a2a-version", b"1.0")],
}

async def main():
    requests, answers = asyncio.Queue(), []
    requests.put_nowait({"type": "http.request", "body": json.dumps(BODY).encode()})

    async def send(message):
        answers.append(message)

    async with app.router.lifespan_context(app):
        await app(SCOPE, requests.get, send)
    answer = json.loads(answers[1]["body"])
    print(json.dumps([sorted(sys.modules), answer["result"]["task"]["status"]["state"]]))

asyncio.run(main())
"""
UNUSED = {
    "a2a.client",
    "a2a.compat.v0_3.conversions",
    "a2a.compat.v0_3.types",
    "a2a.server.request_handlers",
    "aion_core.loading.discovery",
    "aion_core.push.pinned_client",
    "aion_core.push.delivery",
    "aion_core.web.v03.operations",
    "argon2",
    "boto3",
    "cryptography",
    "google.adk",
    "jwt",
    "mangum",
    "tomllib",
}
"""Modules that a first message of v1.0 does not need: for v0.3, push notifications, credentials, AWS and other
projects' files; and the other framework."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that a new server process has imported when it has completed one message."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "agent.py").write_text(GRAPH)
    (folder / "aion.yaml").write_text(AGENT)
    environ = {**os.environ, "AION_CONFIG": str(folder / "aion.yaml"), "AION_STORE": "memory", "AION_AUTH": "off"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, env=environ, check=True, capture_output=True)
    modules, state = json.loads(done.stdout.splitlines()[-1])
    assert state == "TASK_STATE_COMPLETED"
    return set(modules)


def test_first_send_imports_no_unused_module(imported: set[str]) -> None:
    assert "langgraph.graph.state" in imported
    assert imported & UNUSED == set()
