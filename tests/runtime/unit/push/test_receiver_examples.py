"""Example receivers of the repository and of the guide, with the production delivery."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.push import signing
from aion_tools.package.cache import file_lock
from tests.runtime.unit.push.pushing import Pushing
from tests.support.environments import NodeMissing, node_with
from tests.support.receiver import WebhookReceiver, answers, receiving
from tests.support.rows import each_row
from tests.support.server import ROOT

GUIDE = (ROOT / "docs" / "push.md").read_text()
SECRET = signing.new_token()
STATES = ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


class GoMissing(Exception):
    """No Go program can be built here."""


def go_program(folder: Path, **sources: str) -> Path:
    """Return the built program of the folder's Go module and these sources; it is built again after a change.

    Raise GoMissing without Go, or without access to the required modules.
    """
    if shutil.which("go") is None:
        raise GoMissing("go is not there (1.19 or newer): https://go.dev")
    environment = ROOT / ".cache" / folder.name
    program = environment / "program"
    with file_lock(environment):
        environment.mkdir(parents=True, exist_ok=True)
        for source in folder.iterdir():
            shutil.copy(source, environment)
        for name, text in sources.items():
            (environment / f"{name}.go").write_text(text)
        command: list[str | Path] = ["go", "build", "-mod=mod", "-o", program, "."]
        built = subprocess.run(command, cwd=environment, capture_output=True, text=True)
    if built.returncode and "dial tcp" in built.stderr:
        raise GoMissing(f"What it requires cannot be had: {built.stderr.strip()}")
    assert built.returncode == 0, built.stderr
    return program


def block(language: str) -> str:
    """Return the guide's only code block in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


async def posts(token: str) -> WebhookReceiver:
    """Return the posts of a task's two events."""
    async with receiving(answers(200)) as receiver:
        pushing = Pushing()
        task = await pushing.send({"id": "a_b", "url": receiver.url(), "token": token})
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    return receiver


@contextmanager
def example(token: str, heard: list[Any]) -> Iterator[str]:
    """Run the example at its address."""
    spec = util.spec_from_file_location("receiver", ROOT / "examples" / "webhook-receiver" / "receiver.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.serve(module.Inbox(token), 0, heard.append)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("token", [SECRET, "a plain token"], ids=["a key", "a plain one"])
async def test_example_receiver_handles_each_event_once_in_order(token: str) -> None:
    heard: list[Any] = []
    with example(token, heard) as url:
        pushing = Pushing()
        task = await pushing.send({"id": "a_b", "url": url, "token": token})
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
        assert [event["statusUpdate"]["status"]["state"] for event in heard] == STATES
        again = (await posts(token)).posts
        async with httpx.AsyncClient(timeout=60) as client:
            for post in (again[0], again[0], again[1], again[0], again[1]):
                assert (await client.post(url, headers=dict(post.headers), content=post.body)).status_code == 204
    assert [event["statusUpdate"]["status"]["state"] for event in heard] == STATES * 2


FORGERIES: dict[str, Any] = {
    "another body": lambda headers, body: (headers, body.replace(b"COMPLETED", b"FAILED")),
    "another id": lambda headers, body: ({**headers, "webhook-id": headers["webhook-id"].replace("_3_", "_9_")}, body),
    "another time": lambda headers, body: ({**headers, "webhook-timestamp": "1"}, body),
    "no signature": lambda headers, body: ({**headers, "webhook-signature": ""}, body),
    "nonsense": lambda headers, body: ({**headers, "webhook-signature": "nonsense"}, body),
    "no base64": lambda headers, body: ({**headers, "webhook-signature": "v1,*"}, body),
}


@each_row("forgery", FORGERIES)
async def test_example_receiver_refuses_forged_posts(forgery: str) -> None:
    heard: list[Any] = []
    post = (await posts(SECRET)).posts[1]
    headers, body = FORGERIES[forgery](dict(post.headers), post.body)
    with example(SECRET, heard) as url:
        async with httpx.AsyncClient(timeout=60) as client:
            headers["content-length"] = str(len(body))
            assert (await client.post(url, headers=headers, content=body)).status_code == 401
    assert heard == []


@pytest.mark.parametrize("token", [SECRET, "a plain token"], ids=["a key", "a plain one"])
async def test_python_receiver_of_push_guide_works(token: str) -> None:
    heard: list[Any] = []
    names: dict[str, Any] = {"__name__": "guide", "handle": heard.append}
    exec(compile(block("python"), "docs/push.md", "exec"), names)  # noqa: S102  # our own page
    one, two = (await posts(token)).posts
    for post in (one, one, two, one, two):
        assert names["receive"](dict(post.headers), post.body, token) == 204
    assert [event["statusUpdate"]["status"]["state"] for event in heard] == STATES
    # Change the case of the header names, because frameworks may change it too.
    spelled = {name.title(): value for name, value in two.headers.items()}
    assert names["receive"](spelled, two.body, token) == 204
    assert len(heard) == len(STATES)
    assert names["receive"](dict(two.headers), one.body, token) == 401
    assert names["receive"](dict(two.headers), two.body, "another token") == 401


async def test_redriven_event_is_accepted_after_later_events() -> None:
    """Redrive an earlier event: a receiver that expects rising numbers would ignore it."""
    heard: list[Any] = []
    one, two = (await posts(SECRET)).posts
    with example(SECRET, heard) as url:
        async with httpx.AsyncClient(timeout=60) as client:
            for post in (two, one, two):
                assert (await client.post(url, headers=dict(post.headers), content=post.body)).status_code == 204
    assert [event["statusUpdate"]["status"]["state"] for event in heard] == STATES[::-1]
    heard.clear()
    names: dict[str, Any] = {"__name__": "guide", "handle": heard.append}
    exec(compile(block("python"), "docs/push.md", "exec"), names)  # noqa: S102  # our own page
    for post in (two, one, two):
        assert names["receive"](dict(post.headers), post.body, SECRET) == 204
    assert [event["statusUpdate"]["status"]["state"] for event in heard] == STATES[::-1]


STRIP = """
import { readFileSync, writeFileSync } from "node:fs";
import { transformSync } from "amaro";
writeFileSync("receiver.mjs", transformSync(readFileSync(0, "utf8")).code);
"""


@pytest.mark.parametrize(
    "token", [SECRET, pytest.param("a plain token", marks=pytest.mark.deep)], ids=["a key", "a plain one"]
)
async def test_typescript_receiver_of_push_guide_works(token: str) -> None:
    try:
        environment = node_with(ROOT / "tests" / "support" / "webhooks")
    except NodeMissing as missing:
        pytest.skip(f"NOT PROVEN: the receiver in TypeScript. {missing}")
    source = block("typescript").replace('}).listen(Number(process.env.PORT ?? 9000), "127.0.0.1");', LISTEN)
    source = f"const handle = (event: any) => console.log(event.statusUpdate.status.state);\n{source}"
    strip = ["node", "--input-type=module", "-e", STRIP]
    subprocess.run(strip, input=source, cwd=environment, text=True, check=True, timeout=60)
    await hears_each_once_and_no_forgery("node", environment / "receiver.mjs", token=token)


@pytest.mark.deep
@pytest.mark.parametrize("token", [SECRET, "a plain token"], ids=["a key", "a plain one"])
async def test_go_receiver_of_push_guide_works(token: str) -> None:
    folder = ROOT / "tests" / "support" / "webhooks_go"
    try:
        program = go_program(folder, guide=f"package main\n\n{block('go')}")
    except GoMissing as missing:
        pytest.skip(f"NOT PROVEN: the receiver in Go. {missing}")
    await hears_each_once_and_no_forgery(program, token=token)


async def hears_each_once_and_no_forgery(*command: str | Path, token: str) -> None:
    """Run a receiver program and check its output: its address, then each event's state once."""
    receiver = await asyncio.create_subprocess_exec(
        *command, env={"PATH": _path(), "WEBHOOK_TOKEN": token}, stdout=subprocess.PIPE
    )
    assert receiver.stdout is not None
    try:
        url = (await asyncio.wait_for(receiver.stdout.readline(), 60)).decode().strip()
        one, two = (await posts(token)).posts
        async with httpx.AsyncClient(timeout=60) as client:
            for post in (one, one, two, one, two):
                assert (await client.post(url, headers=dict(post.headers), content=post.body)).status_code == 204
            forged = {**two.headers, "content-length": str(len(one.body))}
            assert (await client.post(url, headers=forged, content=one.body)).status_code == 401
    finally:
        receiver.terminate()
        rest = (await receiver.stdout.read()).decode().split()
        await receiver.wait()
    assert rest == STATES


LISTEN = """
}).listen(0, "127.0.0.1", function () { console.log(`http://127.0.0.1:${this.address().port}/`); });
"""


def _path() -> str:
    return os.environ["PATH"]


def test_example_receiver_reports_missing_settings() -> None:
    example = Path(ROOT / "examples" / "webhook-receiver" / "receiver.py")
    ran = subprocess.run([sys.executable, example], env={"PATH": _path()}, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "WEBHOOK_TOKEN" in ran.stderr
