"""Negotiation of extensions: declared, active and required ones."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import AgentExtension

from aion_core.agents.turn_context import inbound_of
from aion_core.engine.agent import Emission, TurnRequest
from aion_core.protocol.aion.extensions import EVENT
from aion_core.protocol.aion.inbound import Inbound
from tests.runtime.unit.web.rest_requests import body, old_body, refused
from tests.support.agents.counting import talking
from tests.support.agents.scripted import GatedAgent
from tests.support.rows import each_row
from tests.support.service import http, parts, send

MUST, MAY, UNKNOWN = "https://x.test/must/v1", "https://x.test/may/v1", "https://x.test/unknown/v1"


@pytest.fixture
async def optional() -> AsyncIterator[httpx.AsyncClient]:
    made = parts(talking(1))
    made.described = {"extensions": [AgentExtension(uri=MAY), AgentExtension(uri=MUST)]}
    async with http(made.app()) as client:
        yield client


@pytest.fixture
async def required() -> AsyncIterator[httpx.AsyncClient]:
    made = parts(talking(1))
    made.described = {"extensions": [AgentExtension(uri=MAY), AgentExtension(uri=MUST, required=True)]}
    async with http(made.app()) as client:
        yield client


V1, V03 = "A2A-Extensions", "X-A2A-Extensions"
REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "rpc": ("/", send(), V1),
    "rpc stream": ("/", send(method="SendStreamingMessage"), V1),
    "rpc v0.3": ("/", send(method="message/send"), V03),
    "rpc v0.3 stream": ("/", send(method="message/stream"), V03),
    "rest": ("/message:send", body(), V1),
    "rest stream": ("/message:stream", body(), V1),
    "rest v0.3": ("/v1/message:send", old_body(), V03),
    "rest v0.3 stream": ("/v1/message:stream", old_body(), V03),
    "an error": ("/message:send", {}, V1),
    "an rpc error": ("/", send(taskId="nope"), V1),
    "a v0.3 error": ("/", send(method="message/send", taskId="nope"), V03),
}


@each_row("header", [V1, V03])
@each_row("name", REQUESTS)
async def test_response_lists_active_extensions(optional: httpx.AsyncClient, name: str, header: str) -> None:
    """The response uses the header name of the request's version; in requests both names are read (A2A 3.6.2)."""
    path, given, answered = REQUESTS[name]
    declared = [(header, f" {UNKNOWN},{MUST} ,,"), (header, MAY), (header, MUST)]
    answer = await optional.post(path, json=given, headers=declared)
    assert answer.headers[answered] == f"{MUST}, {MAY}"
    assert ({V1, V03} - {answered}).pop() not in answer.headers


@pytest.mark.parametrize("declared", [None, "", UNKNOWN, MAY.upper(), ","])
async def test_response_has_no_extension_header_if_no_extension_is_active(
    optional: httpx.AsyncClient, declared: str | None
) -> None:
    headers = {} if declared is None else {V1: declared}
    answer = await optional.post("/message:send", json=body(), headers=headers)
    assert answer.status_code == 200
    assert V1 not in answer.headers


async def test_request_without_required_extension_is_refused(required: httpx.AsyncClient) -> None:
    """The error names it, and the header lists the active ones. The protocol table has each operation and dialect."""
    answer = await required.get("/red/tasks/x", headers={V1: MAY})
    error = refused(answer, 400, "EXTENSION_SUPPORT_REQUIRED", MUST, V1)
    assert error["details"][0]["metadata"] == {"extensions": MUST}
    assert answer.headers[V1] == MAY
    declared = await required.get("/red/tasks/x", headers={V1: MUST})
    assert "EXTENSION" not in declared.text


async def test_card_is_readable_without_declaring_required_extension(required: httpx.AsyncClient) -> None:
    """Read the card without declaring extensions, because clients learn of required ones from it."""
    card = await required.get("/.well-known/agent-card.json")
    assert card.status_code == 200
    assert {extension["uri"] for extension in card.json()["capabilities"]["extensions"]} >= {MAY, MUST}
    for path in ("/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"):
        assert "does not offer" in (await required.get(path)).text
    for method in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard", "agent/authenticatedExtendedCard"):
        answer = await required.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method})
        assert answer.json()["error"]["code"] == -32004


async def test_many_declared_extensions_are_accepted(optional: httpx.AsyncClient) -> None:
    many = ",".join(f"https://x.test/{number}" for number in range(1000))
    answer = await optional.post("/message:send", json=body(), headers=[(V1, MAY), (V1, many)])
    assert answer.headers[V1] == MAY


EVENT_OF_AION = {EVENT: {"type": "to.aion.distribution.command.1.0.0", "source": "aion://d-1", "id": "ev-1"}}


class ListeningAgent(GatedAgent):
    """Agent that records the Aion payloads of its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.go.set()
        self.read: list[Inbound] = []

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.read.append(inbound_of(asked))
        async for emission in super().run(asked):
            yield emission


async def test_aion_extensions_can_be_switched_off() -> None:
    """The card does not declare them, and a request's payloads are ordinary metadata for the agent."""
    agent = ListeningAgent()
    made = parts(agent)
    made.described = {"aion_extensions": False, "extensions": [AgentExtension(uri=MAY)]}
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with http(made.app()) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
        assert [extension["uri"] for extension in card["capabilities"]["extensions"]] == [MAY]
        answer = await client.post("/", json=send(metadata=EVENT_OF_AION), headers=headers)
    task = answer.json()["result"]["task"]
    assert task["history"][0]["metadata"] == EVENT_OF_AION
    assert agent.read == [Inbound()]


async def test_aion_extensions_are_on_by_default() -> None:
    agent = ListeningAgent()
    async with http(parts(agent).app()) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
        refusal = await client.post("/", json=send(metadata=EVENT_OF_AION))
    assert EVENT in [extension["uri"] for extension in card["capabilities"]["extensions"]]
    assert refusal.json()["error"]["code"] == -32602, "a command without its payload"
