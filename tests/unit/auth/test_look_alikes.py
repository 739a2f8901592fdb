"""Names that read like the server's own: whatever a client writes, an agent and a client hear the server's word only."""

import json
import string
from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.protocol.dialects import Dialect, RestDialect, RestV03Dialect, RpcDialect, RpcV03Dialect
from tests.support.guarded import jwt_scheme
from tests.support.issuer import Issuer
from tests.support.service import http

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    helper:
      path: asked.py:graph
      skills:
        - {id: ask, name: Ask, description: Anybody may.}
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund]}]}
"""

TELLS_ITS_INBOX = """
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


class State(MessagesState):
    a2a_inbox: Any


def tell(state):
    inbox = state["a2a_inbox"]
    heard = {"request": dict(inbox.metadata), "message": MessageToDict(inbox.message), "task": MessageToDict(inbox.task)}
    return {"messages": [AIMessage(json.dumps(heard))]}


graph = StateGraph(State).add_node("tell", tell).add_edge(START, "tell")
"""

WIDE = str.maketrans({char: chr(ord(char) + 0xFEE0) for char in string.ascii_letters + ":"})
OURS = "aion:allowedSkills"
READ_LIKE_OURS = [
    OURS,
    OURS.upper(),
    OURS.translate(WIDE),
    f"\N{ZERO WIDTH SPACE}{OURS}",
    OURS.replace("i", "i\N{ZERO WIDTH JOINER}"),
    f" {OURS}",
]
ANOTHER = OURS.replace("a", "\N{CYRILLIC SMALL LETTER A}", 1)
"""In letters of another alphabet it is another name: a client's own, which nothing of ours is read by."""


def lies(depth: int = 4) -> dict[str, Any]:
    """Metadata with each of the names, at every depth, in objects and in lists."""
    below = {"held": lies(depth - 1), "listed": [[lies(depth - 1)]]} if depth else {}
    return {**{name: ["refund"] for name in READ_LIKE_OURS}, ANOTHER: "kept", "own": "kept", **below}


@pytest.mark.parametrize(
    "dialect", [RpcDialect(), RpcV03Dialect(), RestDialect(), RestV03Dialect()], ids=lambda dialect: dialect.name
)
async def test_what_reads_like_the_servers_names_is_dropped_wherever_a_client_writes_it(
    tmp_path: Path, issuer: Issuer, dialect: Dialect
) -> None:
    """R10, R76, R96: 87: in the request's, the message's and a part's metadata, at every depth."""
    (tmp_path / "asked.py").write_text(TELLS_ITS_INBOX)
    (tmp_path / "aion.yaml").write_text(AION_YAML % jwt_scheme(issuer).rstrip("\n"))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}
    part = {"text": "hello", "metadata": lies()}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [part], "metadata": lies()}
    params = {"message": message, "metadata": lies()}
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    sent = dialect.request("SendMessage", params)
    assert sent is not None
    async with http(build_app(Settings.from_environ(environ))) as client:
        answer = await client.request(sent.method, sent.target, content=sent.body, headers={**sent.headers, **headers})
        assert answer.status_code == 200, answer.text
        listed = await client.get("/tasks?includeArtifacts=true&historyLength=9", headers=headers)
    task = listed.json()["tasks"][0]
    heard = json.loads(task["status"]["message"]["parts"][0]["text"])
    assert heard["request"].pop(OURS) == [], "by the server's word this caller may use none of them"
    kept = {ANOTHER: "kept", "own": "kept"}
    for where in (heard["request"], heard["message"]["metadata"], heard["message"]["parts"][0]["metadata"]):
        assert {name: where[name] for name in kept} == kept
        assert where["held"]["listed"][0][0]["held"]["own"] == "kept", "what is the client's own stays, at every depth"
    del task["status"]["message"]["parts"]
    for told in (heard, task):
        names = set(names_of(told))
        assert names & {"own", "listed"}
        assert not names & set(READ_LIKE_OURS)


def names_of(value: Any) -> list[str]:
    """Every name in the JSON value, at every depth."""
    if isinstance(value, dict):
        return [*value, *(name for held in value.values() for name in names_of(held))]
    return [name for held in value for name in names_of(held)] if isinstance(value, list) else []
