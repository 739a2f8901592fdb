"""Skills that require more than their agent does: the card says so, and the agent knows which of them its caller may use."""

import json
from pathlib import Path
from typing import Any

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
        assert extended["skills"][-1]["securityRequirements"] == [{"schemes": {"key": {}}}]
