"""Limits of requests and streams per caller."""

import asyncio
import json
import re
from asyncio import TaskGroup
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.clock import SystemClock
from aion_core.engine.limits.limits import REQUESTS_PER_MINUTE, STREAMS_PER_OWNER, Limits, OpenStream
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.runner import renewal
from aion_core.errors import ConfigurationError, StoreUnavailable
from aion_core.local.memory.table import MemoryTable
from aion_core.settings import Settings
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.support.asgi import ask
from tests.support.issuer import Issuer

GRAPH = """
import asyncio

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


async def act(state):
    if state["messages"][-1].content == "work":
        await asyncio.Event().wait()
    return {"messages": [AIMessage("done")]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
%s
%s
  agents:
    one: {path: limited_agent.py:graph, capabilities: {extended_agent_card: true}, extended_card: {description: More.}}
    two: {path: limited_agent.py:graph}
"""

Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def notices_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn notice soon that its task is canceled."""
    monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.05)


def limited(folder: Path, issuer: Issuer | None, limits: str) -> FastAPI:
    (folder / "limited_agent.py").write_text(GRAPH)
    config = folder / "aion.yaml"
    security = f"  security:\n    schemes:\n{jwt_scheme(issuer, tenant_claim='').rstrip()}" if issuer else ""
    config.write_text(AION_YAML % (f"  limits: {limits}" if limits else "", security))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test"}
    return build_app(Settings.from_environ(environ))


TENANTS = ("", "red")
"""The tenant of a test's requests: none, and one. A limit counts a caller's requests in all tenants together."""


def asking(app: FastAPI, issuer: Issuer, who: str, tenant: str = "") -> Ask:
    """Return a function that sends requests as this caller, in this tenant. Version 0.3 has no tenants."""
    token = issuer.token(sub=who)

    async def send(method: str, target: str, body: Any = None) -> httpx.Response:
        target, body = in_tenant(tenant, target, body) if tenant else (target, body)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        given = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        return await ask(app, method, target, headers, given)

    return send


def in_tenant(tenant: str, target: str, body: Any) -> tuple[str, Any]:
    """Return the target and the body of a request in the tenant: in the params of JSON-RPC, else in the path."""
    if isinstance(body, dict) and "jsonrpc" in body:
        return target, {**body, "params": {**body["params"], "tenant": tenant}}
    agent, path = re.fullmatch(r"(/agents/\w+)?(/.*)", target).groups()  # type: ignore[union-attr]
    return (target if path.startswith("/v1/") else f"{agent or ''}/{tenant}{path}"), body


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def message(text: str, name: str = "m-1") -> dict[str, Any]:
    return {"message": {"messageId": name, "role": "ROLE_USER", "parts": [{"text": text}]}}


async def test_requests_over_every_binding_count_towards_one_request_limit(tmp_path: Path, issuer: Issuer) -> None:
    app = limited(tmp_path, issuer, "{requests_per_minute: 3}")
    alice, bob = asking(app, issuer, "alice"), asking(app, issuer, "bob")
    for path in ("/tasks", "/agents/two/tasks", "/red/tasks"):
        assert (await alice("GET", path)).status_code == 200
    # Requests to all tenants, agents and paths count together, and are refused before their bodies are read.
    for method, path in (
        ("POST", "/"), ("POST", "/agents/two"), ("POST", "/agents/two/"), ("GET", "/tasks"), ("POST", "/message:send"),
        ("GET", "/blue/tasks"), ("GET", "/v1/tasks"), ("POST", "/agents/one/v1/message:stream"), ("GET", "/nothing"),
        ("GET", "/extendedAgentCard"), ("GET", "/agent/authenticatedExtendedCard"),
    ):  # fmt: skip
        refused = await alice(method, path, b"no json" if method == "POST" else None)
        assert refused.status_code == 429, path
        assert 1 <= int(refused.headers["Retry-After"]) <= 20
        assert refused.headers["Cache-Control"] == "no-store"
        body = refused.json()
        if method == "POST" and "message" not in path:
            assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, -32029)
            details = body["error"]["data"]
        elif "/v1/" in path:
            assert body["code"] == -32029
            details = body["data"]
        else:
            assert (body["error"]["code"], body["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
            details = body["error"]["details"]
        assert details[0]["reason"] == "TOO_MANY_REQUESTS"
        assert details[0]["metadata"] == {"retryAfterSeconds": refused.headers["Retry-After"]}
    assert (await bob("GET", "/tasks")).status_code == 200
    for public in ("/.well-known/agent-card.json", "/agents/two/.well-known/agent-card.json", "/health"):
        assert (await alice("GET", public)).status_code == 200, "public paths are not counted"
    assert (await ask(app, "GET", "/tasks")).status_code == 401, "authentication precedes the limit"


async def test_callers_without_authentication_share_limits(tmp_path: Path) -> None:
    app = limited(tmp_path, None, "{requests_per_minute: 2}")
    statuses = [(await ask(app, "GET", "/tasks")).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("configured", ["", pytest.param("{streams_per_task: 3}", marks=pytest.mark.deep)])
async def test_default_limit_refuses_flood_of_one_caller(tmp_path: Path, issuer: Issuer, configured: str) -> None:
    app = limited(tmp_path, issuer, configured)
    alice, bob = asking(app, issuer, "alice"), asking(app, issuer, "bob")
    answers = await asyncio.gather(*(alice("GET", "/nothing") for _ in range(REQUESTS_PER_MINUTE)))
    assert {answer.status_code for answer in answers} == {404}
    # Send until a request is refused. The bucket fills by only 20 requests in a second.
    while (await alice("GET", "/nothing")).status_code != 429:
        pass
    assert (await bob("GET", "/nothing")).status_code == 404


async def test_default_limit_of_open_streams_applies_per_caller() -> None:
    counters, limits = RateLimits(MemoryTable(SystemClock()), SystemClock()), Limits.default()
    until = SystemClock().now() + timedelta(minutes=15)
    opened = [await counters.open_stream("alice", OpenStream(str(n), "", until), limits) for n in range(51)]
    assert opened == [True] * STREAMS_PER_OWNER + [False]
    assert await counters.open_stream("bob", OpenStream("0", "", until), limits)


OFF = "{requests_per_minute: null, streams_per_owner: null}"


@pytest.mark.parametrize(("configured", "guarded"), [(OFF, True), ("{requests_per_minute: null}", True), ("", False)])
async def test_requests_are_not_counted_without_a_limit(
    tmp_path: Path, issuer: Issuer, configured: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no default limit without authentication, because all callers would share it."""

    def counts(*_: Any, **__: Any) -> Any:
        raise AssertionError("a request is counted")

    monkeypatch.setattr(RateLimits, "take", counts)
    app = limited(tmp_path, issuer if guarded else None, configured)
    alice = asking(app, issuer, "alice")
    for _ in range(50):
        assert (await alice("GET", "/tasks")).status_code == 200


async def test_unavailable_rate_limit_counters_refuse_requests(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(self: RateLimits, owner: str, *, per_minute: int) -> float:
        raise StoreUnavailable("the-table-has-a-name: throttled")

    monkeypatch.setattr(RateLimits, "take", down)
    alice = asking(limited(tmp_path, issuer, "{requests_per_minute: 2}"), issuer, "alice")
    answer = await alice("GET", "/tasks")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "the-table" not in answer.text
    answer = await alice("POST", "/", rpc("ListTasks"))
    assert answer.json()["error"]["data"][0]["reason"] == "SERVICE_UNAVAILABLE"


STREAMS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "rpc": ("POST", "/", lambda id_: rpc("SubscribeToTask", id=id_)),
    "rpc 0.3": ("POST", "/", lambda id_: rpc("tasks/resubscribe", id=id_)),
    "rest": ("GET", "/tasks/{}:subscribe", lambda _: None),
    "rest 0.3": ("POST", "/v1/tasks/{}:subscribe", lambda _: None),
}


@pytest.mark.parametrize("tenant", TENANTS)
@pytest.mark.parametrize("limit", ["streams_per_owner", "streams_per_task"])
async def test_stream_limit_refuses_request_before_response_starts(
    tmp_path: Path, issuer: Issuer, limit: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open as many streams as a task's limit or a caller's limit allows, and one more; a new one may open after one ends."""
    opened = asyncio.Semaphore(0)
    real = RateLimits.open_stream

    async def open_stream(self: RateLimits, *given: Any) -> bool:
        allowed = await real(self, *given)
        opened.release()
        return allowed

    monkeypatch.setattr(RateLimits, "open_stream", open_stream)
    app = limited(tmp_path, issuer, f"{{{limit}: 2}}")
    alice, bob = asking(app, issuer, "alice", tenant), asking(app, issuer, "bob", tenant)

    async def at_work(caller: Ask, name: str = "m-1") -> str:
        request_body = rpc("SendMessage", **message("work", name), configuration={"returnImmediately": True})
        return str((await caller("POST", "/", request_body)).json()["result"]["task"]["id"])

    task = await at_work(alice)
    open_ones = [asyncio.create_task(alice("GET", f"/tasks/{task}:subscribe")) for _ in range(2)]
    for _ in open_ones:
        await opened.acquire()
    for name, (method, path, body) in STREAMS.items():
        if tenant and "0.3" in name:
            continue
        refused = await alice(method, path.format(task), body(task))
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10"), (name, refused.text)
        assert "TOO_MANY_REQUESTS" in refused.text
    other = await at_work(alice, "m-2")
    begins = rpc("SendStreamingMessage", **message("hello", "m-3"))
    answer = await alice("POST", "/", begins)
    is_of_owner = limit == "streams_per_owner"
    assert answer.status_code == (429 if is_of_owner else 200)
    # The refused request created no task.
    assert (await alice("GET", "/tasks")).json()["totalSize"] == (2 if is_of_owner else 3)
    # Streams of another caller do not count.
    assert (await bob("POST", "/", rpc("SendStreamingMessage", **message("hello")))).status_code == 200
    for running in (task, other):
        assert "result" in (await alice("POST", "/", rpc("CancelTask", id=running))).json()
    assert [(await stream).status_code for stream in open_ones] == [200, 200]
    for n in range(3):
        answer = await alice("POST", "/", rpc("SendStreamingMessage", **message("hello", f"m-4-{n}")))
        assert answer.status_code == 200, "ended streams are not counted"


@pytest.mark.parametrize(
    ("dialect", "tenant"),
    [
        pytest.param(
            each,
            tenant,
            id=f"{each.name} {tenant}",
            marks=[pytest.mark.deep] * (each.is_rest != bool(tenant)),
        )
        for each in DIALECTS
        for tenant in TENANTS
        if not tenant or each.version == "1.0"
    ],
)
async def test_blocking_send_counts_towards_stream_limit(
    tmp_path: Path, issuer: Issuer, dialect: Dialect, tenant: str
) -> None:
    app = limited(tmp_path, issuer, "{streams_per_owner: 1}")
    token = issuer.token(sub="alice")

    async def sending(text: str, name: str, *, at_once: bool = False) -> httpx.Response:
        configuration = {"configuration": {"returnImmediately": True}} if at_once else {}
        params = {**message(text, name), **configuration, **({"tenant": tenant} if tenant else {})}
        sent = dialect.request("SendMessage", params)
        assert sent is not None
        headers = {"authorization": f"Bearer {token}", **sent.headers}
        return await ask(app, sent.method, sent.target, headers, sent.body)

    alice, bob = asking(app, issuer, "alice", tenant), asking(app, issuer, "bob", tenant)
    async with TaskGroup() as group:
        waiting = group.create_task(sending("work", "m-1"))
        while not (await alice("GET", "/tasks")).json()["tasks"]:
            await asyncio.sleep(0)
        refused = await sending("hello", "m-2")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10"), refused.text
        assert "returnImmediately" in refused.text
        assert (await sending("work", "m-3", at_once=True)).status_code == 200, "it does not wait"
        assert (await bob("POST", "/", rpc("SendMessage", **message("hello")))).status_code == 200
        assert (await alice("GET", "/tasks")).json()["totalSize"] == 2, "the refused send created no task"
        for task in (await alice("GET", "/tasks")).json()["tasks"]:
            await alice("POST", "/", rpc("CancelTask", id=task["id"]))
    assert waiting.result().status_code == 200
    assert (await sending("hello", "m-4")).status_code == 200, "an ended wait is not counted"


@pytest.mark.parametrize(
    ("configured", "sentence"),
    [
        ("{requests_per_minute: 0}", "aion.limits.requests_per_minute"),
        ("{streams_per_owner: 1000}", "aion.limits.streams_per_owner"),
        ("{requests: 5}", "aion.limits.requests is not a key that aion knows"),
    ],
)
def test_invalid_rate_limit_setting_is_named_in_error(tmp_path: Path, configured: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        limited(tmp_path, None, configured)
