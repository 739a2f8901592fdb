"""Example clients and webhook receivers, run against `aion dev` with the commands of their READMEs."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.environments import NodeMissing, node_with, python_with
from tests.support.server import ROOT, ServerProcess

PYTHON, TYPESCRIPT = "webhook-receiver", "webhook-receiver-typescript"
V03_LOCK = ROOT / "tests" / "support" / "a2a-sdk-0.3.txt"


def output_of(example: str) -> str:
    """Return the output block of the example's README."""
    readme = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    (output,) = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    return str(output)


@pytest.mark.deep
def test_v03_example_client_prints_output_shown_in_its_readme(server: ServerProcess) -> None:
    folder = ROOT / "examples" / "client-v03"
    command = [str(python_with(V03_LOCK)), str(folder / "client.py"), server.url, "Hello, who is there?"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (output_of("client-v03"), "")
    (requirement,) = re.findall(r"^a2a-sdk==\S+$", (folder / "requirements.txt").read_text(), re.MULTILINE)
    assert f"\n{requirement} " in V03_LOCK.read_text()


def command_of(example: str) -> list[str]:
    """Return the command that starts the example's receiver. Raise NodeMissing without Node."""
    folder = ROOT / "examples" / example
    if example == PYTHON:
        return [sys.executable, str(folder / "receiver.py")]
    return ["npm", "start", "--silent", "--prefix", str(node_with(folder))]


@contextmanager
def receiver(command: list[str], token: str) -> Iterator[tuple[str, Iterator[str]]]:
    """Run a receiver on a free port; yield its URL and its output lines."""
    environ = {**os.environ, "PORT": "0", "WEBHOOK_TOKEN": token}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert found is not None
        yield found[0], iter(process.stdout.readline, "")
    finally:
        os.killpg(process.pid, 15)
        process.communicate()


@pytest.mark.parametrize("example", [PYTHON, pytest.param(TYPESCRIPT, marks=pytest.mark.deep)])
def test_example_webhook_receiver_prints_output_shown_in_its_readme(example: str, server: ServerProcess) -> None:
    try:
        command = command_of(example)
    except NodeMissing as missing:
        pytest.skip(f"NOT PROVEN: the receiver in TypeScript. {missing}")
    readme = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    (request,) = re.findall(r"^(curl .*?)^```", readme, re.MULTILINE | re.DOTALL)
    (token,) = set(re.findall(r"whsec_[\w+/=]+", readme))
    with receiver(command, token) as (url, printed):
        real = request.replace("http://127.0.0.1:9000/", url).replace("http://127.0.0.1:8000", server.url)
        sent = subprocess.run(shlex.split(real), capture_output=True, text=True, check=True)
        states = [line.split()[1] for line in output_of(example).splitlines()[1:]]
        lines = [next(printed).split() for _ in states]
        assert [state for _, state in lines] == states
        assert {task for task, _ in lines} == set(re.findall(r'"task": ?{"id": ?"([^"]+)"', sent.stdout)), sent.stdout
        assert httpx.post(url, content=b"{}", timeout=60).status_code == 401
        forged = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        assert httpx.post(url, content=b"{}", headers=forged, timeout=60).status_code == 401
