"""Callbacks of remote agents, foreign ones and ours, over real sockets; and attacks on their path."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.clock import SystemClock
from aion_core.delegation.looks import have_answers
from aion_core.delegation.remotes import Remotes
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.callbacks import hash_of
from aion_core.engine.turn import wait
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.web import callbacks
from aion_core.web.callbacks import MAX_BODY_BYTES, PER_MINUTE
from tests.runtime.unit.delegation.remote_servers import served_by_sdk, served_here
from tests.runtime.unit.web.callers import AGENTS, Caller, caller, now, said, wait_until
from tests.support.foreign import sdk_server
from tests.support.rows import each_row
from tests.support.stores import MemoryTaskStore
from tests.support.waiting import suspend_after

WORKING = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
COMPLETED = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspend turns after a tenth of a second."""
    suspend_after(0.1, monkeypatch)


@pytest.mark.parametrize(
    ("version", "binding", "posts"), [("1.0", "JSONRPC", 2), ("1.0", "HTTP+JSON", 1), ("0.3", "JSONRPC", 2)]
)
def test_foreign_agents_callback_ends_wait(version: str, binding: str, posts: int, tmp_path: Path) -> None:
    heard: list[Mapping[str, str]] = []
    with sdk_server(version, binding, heard=heard) as url, caller(tmp_path, url) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        server.end("job")
        assert said(server.ends(task)) == "Held."
        assert server.posts[-1][0] == 204
    assert len(heard) == posts, "one message, and one look, which is a GET of HTTP+JSON"


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
@pytest.mark.parametrize("agent", ["root", "by_tool"])
def test_callback_ends_wait_of_adk_agent(agent: str, tmp_path: Path) -> None:
    heard: list[Mapping[str, str]] = []
    path = f"{AGENTS / 'delegating_adk.py'}:{agent}"
    with sdk_server(heard=heard) as url, caller(tmp_path, url, agent=path) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        assert server.next_look(task) > now() + 600_000, "it isn't polled"
        server.end("job")
        assert "Held." in json.dumps(server.ends(task))
        assert server.posts[-1][0] == 204
    assert len(heard) == 2, "one message, and one look"


def test_question_is_reported_too(tmp_path: Path) -> None:
    with sdk_server() as url, caller(tmp_path, url) as server:
        task = server.send(f"{server.hold('job')} ask")
        server.waits(task)
        server.end("job")
        wait_until(lambda: server.task(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED")
        answer = {"messageId": "a", "taskId": task, "role": "ROLE_USER", "parts": [{"text": "red"}]}
        answered = server.rpc("SendMessage", message=answer)["task"]
        assert said(answered) == "Held for red."


def test_this_servers_callback_ends_wait(tmp_path: Path) -> None:
    with served_here() as url, caller(tmp_path, url) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        server.end("job")
        assert said(server.ends(task)) == "Held."
        assert [status for status, _ in server.posts] == [204, 204]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Caller, str]]:
    """A server, and its task that waits for a remote agent. The remote agent has reported that it works."""
    with sdk_server() as url, caller(tmp_path, url) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        yield server, task


def test_wrong_token_is_refused_as_used_one(waiting: tuple[Caller, str]) -> None:
    server, task = waiting
    wrong = [server.post(token, COMPLETED) for token in ("", "x", "x" * 5000, b"\xe4\xff", "' OR 1=1 --")]
    valid = server.token_of_remote()
    assert server.next_look(task) > now() + 800_000
    assert server.post(valid, COMPLETED).status_code == 204
    used = server.post(valid, COMPLETED)
    assert used.status_code == 401
    assert {(each.status_code, each.content, *each.headers) for each in wrong} == {(401, used.content, *used.headers)}


def test_token_is_stored_as_hash_only(waiting: tuple[Caller, str]) -> None:
    server, _ = waiting
    assert server.token_of_remote() not in server.stored()
    assert hash_of(server.token_of_remote()) in server.stored()


def test_early_callback_costs_one_look_and_polls_follow(
    waiting: tuple[Caller, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, task = waiting
    monkeypatch.setattr(wait, "FIRST_LOOK", timedelta(seconds=1))
    assert server.next_look(task) > now() + 800_000, "the net is far"
    assert server.post(server.token_of_remote(), COMPLETED).status_code == 204
    wait_until(lambda: now() < server.next_look(task) < now() + 10_000)
    assert said(server.task(task)).startswith("Waiting for"), "GetTask decides"
    server.end("job")
    assert said(server.ends(task)) == "Held."


def test_report_of_work_leaves_token_valid(waiting: tuple[Caller, str]) -> None:
    server, task = waiting
    before = server.next_look(task)
    goes_on: list[Any] = [WORKING, {"artifactUpdate": {}}, {"kind": "task", "status": {"state": "working"}}]
    for body in goes_on:
        assert server.post(server.token_of_remote(), body).status_code == 204
    assert server.next_look(task) == before
    assert server.post(server.token_of_remote(), COMPLETED).status_code == 204


@each_row(
    "body", [None, [], "x", {"task": 7}, {"status": {"state": "odd"}}, {"statusUpdate": []}, {"task": {"status": []}}]
)
def test_unreadable_notification_counts_as_end(body: Any) -> None:
    assert not callbacks._goes_on(json.dumps(body).encode())


def test_broken_notifications_count_as_end() -> None:
    assert not any(map(callbacks._goes_on, (None, b"", b"{", b"\xff", b"[" * 60_000)))


def test_callback_without_token_is_refused_before_its_body(waiting: tuple[Caller, str]) -> None:
    server, _ = waiting
    assert server.begins_to_post("wrong", 10**9).startswith(b"HTTP/1.1 401 ")
    assert server.post("wrong", {}, **{"Content-Encoding": "gzip"}).status_code == 401


@pytest.mark.parametrize(("length", "sent"), [(10**9, b"x" * (MAX_BODY_BYTES + 1)), (100, b"{")], ids=["huge", "slow"])
def test_huge_or_slow_body_is_not_awaited(
    waiting: tuple[Caller, str], length: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, task = waiting
    monkeypatch.setattr(callbacks, "BODY_SECONDS", 0.2)
    assert server.begins_to_post(server.token_of_remote(), length, sent).startswith(b"HTTP/1.1 204 ")
    wait_until(lambda: server.next_look(task) < now() + 10_000)


def test_callback_by_other_method_is_refused_after_token(waiting: tuple[Caller, str]) -> None:
    server, _ = waiting
    url, token = f"{server.url}/callbacks", server.token_of_remote()
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        assert httpx.request(method, url).status_code == 401
        assert httpx.request(method, url, headers={"X-A2A-Notification-Token": token}).status_code == 405
    assert server.post(token, COMPLETED).status_code == 204, "the token is unused"


def test_token_of_another_task_wakes_its_own_only(waiting: tuple[Caller, str]) -> None:
    server, task = waiting
    first = server.token_of_remote()
    other = server.send(server.hold("other"), "m2")
    server.waits(other)
    wait_until(lambda: server.token_of_remote() != first)
    second = server.token_of_remote()
    forged = {"task": {"id": task, "contextId": "m", "status": {"state": "TASK_STATE_COMPLETED"}}}
    before = server.next_look(task)
    assert server.post(second, forged).status_code == 204
    wait_until(lambda: server.next_look(other) < now() + 10_000)
    assert server.next_look(task) == before


def test_callbacks_with_one_token_are_limited(waiting: tuple[Caller, str]) -> None:
    server, _ = waiting
    statuses = [server.post(server.token_of_remote(), WORKING).status_code for _ in range(PER_MINUTE + 2)]
    assert statuses[-1] == 429
    assert int(server.post(server.token_of_remote(), WORKING).headers["Retry-After"]) >= 1


def test_callbacks_have_no_path_until_asked_for(tmp_path: Path) -> None:
    with sdk_server() as url, caller(tmp_path, url, "off") as server:
        assert server.post("x", COMPLETED).status_code == 404
        task = server.send(server.hold("job"))
        server.waits(task)
        assert server.next_look(task) < now() + 10_000, "the task is polled"


def test_callback_needs_no_other_credentials(tmp_path: Path) -> None:
    with sdk_server() as url, caller(tmp_path, url, with_keys=True) as server:
        assert httpx.post(server.url, json={}).status_code == 401
        for path in ("/callbacks/", "/callbacks/x", "//callbacks", "/agents/node/callbacks"):
            assert httpx.post(f"{server.url}{path}", json={}).status_code == 401
        task = server.send(server.hold("job"))
        server.waits(task)
        server.end("job")
        assert said(server.ends(task)) == "Held."


def test_agent_without_push_notifications_is_polled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with served_by_sdk() as url, caller(tmp_path, url) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        assert server.next_look(task) < now() + 10_000
        assert "its card has no capability pushNotifications" in caplog.text


def test_agent_that_refuses_callback_is_polled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """This server refuses the address of another machine without https."""
    with served_here(AION_PUSH_HTTP="false") as url, caller(tmp_path, url) as server:
        task = server.send(server.hold("job"))
        server.waits(task)
        assert server.next_look(task) < now() + 10_000
        assert "has refused a message with a callback" in caplog.text
        server.end("job")  # its server ends after its turns


@pytest.mark.parametrize(
    ("base_url", "reason"),
    [
        ("http://agents.example.com", "callbacks need https"),
        ("https://abc.lambda-url.eu-west-1.on.aws", "served by the REST API only"),
    ],
)
def test_address_that_cannot_be_called_back_is_named(
    base_url: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sdk_server() as url, caller(tmp_path, url, AION_BASE_URL=base_url) as server:
        assert "aion.remotes.remote has `callback: on`, but the server's public URL is" in caplog.text
        assert reason in caplog.text
        task = server.send(server.hold("job"))
        server.waits(task)
        assert server.next_look(task) < now() + 10_000


async def test_lost_callback_is_named_by_net(caplog: pytest.LogCaptureFixture) -> None:
    remotes, calls = Remotes(), MemoryTaskStore(SystemClock()).remote_calls
    context, task = ContextKey("ann", "a", "c"), TaskKey("ann", "t")
    with sdk_server() as url:
        async with remotes.client(url) as client:
            message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="say hello")])
            answers = [each async for each in client.send_message(SendMessageRequest(message=message))]
        for calls_back in (False, True):
            assert not caplog.text
            awaited = AwaitedCall("k", url, answers[0].task.id, calls_back=calls_back)
            assert await have_answers(remotes.client, calls, context, task, [awaited])
    assert f"The agent {url} has not called back" in caplog.text
