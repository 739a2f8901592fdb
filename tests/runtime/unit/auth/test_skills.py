"""Skills with security requirements of their own: on the card, and in the metadata for the agent."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from fastapi import FastAPI
from google.protobuf.json_format import ParseDict

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import jwt_scheme, scheme
from tests.support.issuer import Issuer
from tests.support.service import http, send

AION_YAML = """
aion:
  security:
    schemes:
%s
    require: [{jwt: [chat]}]
  agents:
    helper:
      path: echo_agent.py:graph
      skills:
        - {id: ask, name: Ask, description: Anybody may.}
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund]}, {jwt: [admin]}]}
      capabilities: {extended_agent_card: true}
      extended_card:
        skills: [{id: audit, name: Audit, description: Needs a key., require: [key]}]
"""

ECHO_METADATA = """
import json
from typing import Any
from typing_extensions import TypedDict
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


class SkillState(MessagesState):
    a2a_inbox: Any


def echo(state):
    return {"messages": [AIMessage(json.dumps(dict(state["a2a_inbox"].metadata)))]}


graph = StateGraph(SkillState).add_node("echo", echo).add_edge(START, "echo")
"""


async def test_agent_receives_skills_permitted_to_its_caller(tmp_path: Path, issuer: Issuer) -> None:
    """The client sends a list of skills in its metadata: the server replaces it by the permitted ones."""
    (tmp_path / "echo_agent.py").write_text(ECHO_METADATA)
    schemes = (jwt_scheme(issuer) + scheme("key", type="api-key")).rstrip("\n")
    (tmp_path / "aion.yaml").write_text(AION_YAML % schemes)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}
    async with http(build_app(Settings.from_environ(environ))) as client:

        async def allowed(scopes: str, method: str = "SendMessage") -> Any:
            body = send("may I?", message_id=f"{scopes}{method}".replace(" ", "-"), method=method)
            forged = {"aion:allowedSkills": ["refund", "audit"], "AION:allowedSkills": ["refund"], "note": "kept"}
            body["params"]["metadata"] = forged
            headers = {"Authorization": f"Bearer {issuer.token(scope=scopes)}"}
            answer = (await client.post("/", json=body, headers=headers)).json()["result"]
            status = answer.get("task", answer)["status"]
            metadata = json.loads(status["message"]["parts"][0]["text"])
            assert metadata["note"] == "kept"
            assert "AION:allowedSkills" not in metadata
            return metadata["aion:allowedSkills"]

        for method in ("SendMessage", "message/send"):
            assert await allowed("chat", method) == []
            assert await allowed("chat orders.refund", method) == ["refund"]
            assert await allowed("chat admin x", method) == ["refund"]
        card = (await client.get("/.well-known/agent-card.json")).json()
        required = {skill["id"]: (skill.get("securityRequirements"), skill.get("security")) for skill in card["skills"]}
        assert required["ask"] == (None, None)
        assert required["refund"][1] == [{"jwt": ["orders.refund"]}, {"jwt": ["admin"]}]
        assert required["refund"][0] == [
            {"schemes": {"jwt": {"list": ["orders.refund"]}}},
            {"schemes": {"jwt": {"list": ["admin"]}}},
        ]
        assert list(card["securitySchemes"]) == ["jwt", "key"]
        headers = {"Authorization": f"Bearer {issuer.token(scope='chat')}"}
        extended = (await client.get("/extendedAgentCard", headers=headers)).json()
        assert [skill["id"] for skill in extended["skills"]] == ["ask"]
        headers["Authorization"] = f"Bearer {issuer.token(scope='chat admin')}"
        extended = (await client.get("/extendedAgentCard", headers=headers)).json()
        assert [skill["id"] for skill in extended["skills"]] == ["ask", "refund"]
        assert extended["skills"][-1]["securityRequirements"] == card["skills"][-1]["securityRequirements"]


CLOSED_YAML = """
aion:
  security:
    schemes:
%s
    require: [{jwt: [chat]}]
  agents:
    helper:
      path: echo_agent.py:graph
      skills:
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund, orders.read]}, {jwt: [admin]}]}
        - {id: audit, name: Audit, description: Needs a key., require: [key]}
      capabilities: {extended_agent_card: true}
      extended_card: {description: More.}
    open:
      path: echo_agent.py:graph
      capabilities: {extended_agent_card: true}
      extended_card:
        skills: [{id: refund, name: Refund, description: Needs more., require: [{jwt: [admin]}]}]
"""


def served(folder: Path, issuer: Issuer, **environ: str) -> FastAPI:
    (folder / "echo_agent.py").write_text(ECHO_METADATA)
    schemes = (jwt_scheme(issuer) + scheme("key", type="api-key")).rstrip("\n")
    (folder / "aion.yaml").write_text(CLOSED_YAML % schemes)
    given = {"AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml"), **environ}
    return build_app(Settings.from_environ(given))


EVERY_WAY = [
    ("POST", "/", send()),
    ("POST", "/agents/helper/", send(method="message/send")),
    ("POST", "/message:stream", send()["params"]),
    ("GET", "/tasks", None),
    ("GET", "/extendedAgentCard", None),
    ("GET", "/v1/card", None),
    ("GET", "/nothing", None),
]


@pytest.mark.parametrize(("method", "path", "body"), EVERY_WAY)
async def test_caller_without_any_permitted_skill_gets_403(
    tmp_path: Path, issuer: Issuer, method: str, path: str, body: Any
) -> None:
    """The response names the smallest set of scopes that would permit a skill."""
    async with http(served(tmp_path, issuer)) as client:

        async def call(scopes: str, path: str = path) -> httpx.Response:
            headers = {"Authorization": f"Bearer {issuer.token(scope=scopes)}"}
            return await client.request(method, path, json=body, headers=headers)

        for scopes in ("chat", "chat orders.refund", "chat ADMIN"):
            refused = await call(scopes)
            assert refused.status_code == 403, refused.text
            assert 'error="insufficient_scope", scope="admin"' in refused.headers["www-authenticate"]
        # A skill's scope does not replace the agent's scope.
        assert (await call("admin")).status_code == 403
        for scopes in ("chat admin", "chat orders.refund orders.read"):
            assert (await call(scopes)).status_code == (404 if path == "/nothing" else 200)
        # Without declared skills, the agent needs no skill's scope.
        assert (await call("chat", f"/agents/open{path.removeprefix('/agents/helper')}")).status_code != 403


JS_SDK_OF_V03 = {"Accept": "application/json", "Content-Type": "application/json"}


@pytest.mark.parametrize("headers", [JS_SDK_OF_V03, {"A2A-Version": "0.3"}], ids=["js 0.3", "1.0 in its mode for 0.3"])
async def test_v03_extended_card_shows_schemes_as_requesting_sdk_reads_them(
    tmp_path: Path, issuer: Issuer, headers: dict[str, str]
) -> None:
    """Most v0.3 SDKs read schemes in the proto form; Python's, which sends none of these headers, does not."""
    async with http(served(tmp_path, issuer)) as client:
        client.headers["Authorization"] = f"Bearer {issuer.token(scope='chat admin')}"
        card = ParseDict((await client.get("/v1/card", headers=headers)).json(), pb03.AgentCard())
        assert card.security_schemes["jwt"].WhichOneof("scheme") == "http_auth_security_scheme"
        python = (await client.get("/v1/card")).json()
        assert python["securitySchemes"]["jwt"]["type"] == "http"


async def test_signed_extended_card_shows_only_skills_permitted_to_caller(tmp_path: Path, issuer: Issuer) -> None:
    """Request the extended card on each path; the public card shows all skills with their requirements."""
    from aion_core.protocol.keys import CardKey
    from aion_tools.cli.card_verification import verify_card

    key, pem = CardKey.generate()
    (tmp_path / "key.pem").write_text(pem)
    async with http(served(tmp_path, issuer, AION_CARD_KEY_FILE=str(tmp_path / "key.pem"))) as client:
        for at, scopes, skills in (
            ("", "chat admin", ["refund"]),
            ("", "chat orders.read orders.refund", ["refund"]),
            ("/agents/open", "chat", ["chat"]),
            ("/agents/open", "chat admin", ["chat", "refund"]),
        ):
            headers = {"Authorization": f"Bearer {issuer.token(scope=scopes)}"}
            for path in ("/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"):
                card = (await client.get(f"{at}{path}", headers=headers)).json()
                assert [skill["id"] for skill in card["skills"]] == skills, (path, scopes)
                assert set(verify_card(card, lambda _: [key]).values()) == {key.id}
            body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
            card = (await client.post(f"{at}/", json=body, headers=headers)).json()["result"]
            assert [skill["id"] for skill in card["skills"]] == skills
        public = (await client.get("/.well-known/agent-card.json")).json()
        assert [skill["id"] for skill in public["skills"]] == ["refund", "audit"]
