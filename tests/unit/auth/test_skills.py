"""Skills that require more than their agent does: the card says so, and the agent knows which of them its caller may use."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support.guarded import jwt_scheme, scheme
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
      path: asked.py:graph
      skills:
        - {id: ask, name: Ask, description: Anybody may.}
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund]}, {jwt: [admin]}]}
      capabilities: {extended_agent_card: true}
      extended_card:
        skills: [{id: audit, name: Audit, description: Needs a key., require: [key]}]
"""

ASKED = """
import json
from typing import Any
from typing_extensions import TypedDict
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


class State(MessagesState):
    a2a_inbox: Any


def tell(state):
    return {"messages": [AIMessage(json.dumps(dict(state["a2a_inbox"].metadata)))]}


graph = StateGraph(State).add_node("tell", tell).add_edge(START, "tell")
"""


async def test_an_agent_knows_which_guarded_skills_its_caller_may_use(tmp_path: Path, issuer: Issuer) -> None:
    """R8, R76, R97: by the server's word, whatever the client writes."""
    (tmp_path / "asked.py").write_text(ASKED)
    schemes = (jwt_scheme(issuer) + scheme("key", type="api-key")).rstrip("\n")
    (tmp_path / "aion.yaml").write_text(AION_YAML % schemes)
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}
    async with http(build_app(Settings.from_environ(environ))) as client:

        async def allowed(scopes: str, method: str = "SendMessage") -> Any:
            body = send("may I?", message_id=f"{scopes}{method}".replace(" ", "-"), method=method)
            lie = {"aion:allowedSkills": ["refund", "audit"], "AION:allowedSkills": ["refund"], "note": "kept"}
            body["params"]["metadata"] = lie
            headers = {"Authorization": f"Bearer {issuer.token(scope=scopes)}"}
            answer = (await client.post("/", json=body, headers=headers)).json()["result"]
            status = answer.get("task", answer)["status"]
            told = json.loads(status["message"]["parts"][0]["text"])
            assert told["note"] == "kept"
            assert "AION:allowedSkills" not in told
            return told["aion:allowedSkills"]

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
      path: asked.py:graph
      skills:
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund, orders.read]}, {jwt: [admin]}]}
        - {id: audit, name: Audit, description: Needs a key., require: [key]}
      capabilities: {extended_agent_card: true}
      extended_card: {description: More.}
    open:
      path: asked.py:graph
      capabilities: {extended_agent_card: true}
      extended_card:
        skills: [{id: refund, name: Refund, description: Needs more., require: [{jwt: [admin]}]}]
"""


def served(folder: Path, issuer: Issuer, **environ: str) -> FastAPI:
    (folder / "asked.py").write_text(ASKED)
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
async def test_whoever_may_use_no_skill_of_an_agent_may_not_call_it(
    tmp_path: Path, issuer: Issuer, method: str, path: str, body: Any
) -> None:
    """R97: 66: and is told the least that would open one."""
    async with http(served(tmp_path, issuer)) as client:

        async def call(scopes: str, path: str = path) -> httpx.Response:
            headers = {"Authorization": f"Bearer {issuer.token(scope=scopes)}"}
            return await client.request(method, path, json=body, headers=headers)

        for scopes in ("chat", "chat orders.refund", "chat ADMIN"):
            refused = await call(scopes)
            assert refused.status_code == 403, refused.text
            assert 'error="insufficient_scope", scope="admin"' in refused.headers["www-authenticate"]
        # Its skill is not the agent: without what that requires it is no use.
        assert (await call("admin")).status_code == 403
        for scopes in ("chat admin", "chat orders.refund orders.read"):
            assert (await call(scopes)).status_code == (404 if path == "/nothing" else 200)
        # An agent that says nothing of its skills has one that is open to all its callers.
        assert (await call("chat", f"/agents/open{path.removeprefix('/agents/helper')}")).status_code != 403


async def test_the_extended_card_shows_the_skills_that_its_caller_may_use_and_is_signed_for_them(
    tmp_path: Path, issuer: Issuer
) -> None:
    """R7, R97: by every one of its names; the public card, which says what they require, shows them all."""
    from aion_core.protocol.keys import CardKey
    from aion_core.protocol.signing import verify_card

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
            asked = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
            card = (await client.post(f"{at}/", json=asked, headers=headers)).json()["result"]
            assert [skill["id"] for skill in card["skills"]] == skills
        public = (await client.get("/.well-known/agent-card.json")).json()
        assert [skill["id"] for skill in public["skills"]] == ["refund", "audit"]
