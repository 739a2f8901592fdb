"""Lookalikes of reserved metadata names: the server drops them from client data."""

import json
import string
from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.protocol.dialects import Dialect, RestDialect, RestV03Dialect, RpcDialect, RpcV03Dialect
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.support.issuer import Issuer
from tests.support.service import http

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    helper:
      path: echo_agent.py:graph
      skills:
        - {id: ask, name: Ask, description: Anybody may.}
        - {id: refund, name: Refund, description: Needs more., require: [{jwt: [orders.refund]}]}
"""

ECHO_INBOX = """
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


class MetadataState(MessagesState):
    a2a_inbox: Any


def echo(state):
    inbox = state["a2a_inbox"]
    received = {"request": dict(inbox.metadata), "message": MessageToDict(inbox.message), "task": MessageToDict(inbox.task)}
    return {"messages": [AIMessage(json.dumps(received))]}


graph = StateGraph(MetadataState).add_node("echo", echo).add_edge(START, "echo")
"""

WIDE = str.maketrans({char: chr(ord(char) + 0xFEE0) for char in string.ascii_letters + ":"})
RESERVED_NAME = "aion:allowedSkills"
LOOKALIKES = [
    RESERVED_NAME,
    RESERVED_NAME.upper(),
    RESERVED_NAME.translate(WIDE),
    f"\N{ZERO WIDTH SPACE}{RESERVED_NAME}",
    RESERVED_NAME.replace("i", "i\N{ZERO WIDTH JOINER}"),
    f" {RESERVED_NAME}",
]
FREE_NAME = RESERVED_NAME.replace("a", "\N{CYRILLIC SMALL LETTER A}", 1)
"""Name with a letter of another alphabet: it is a different name, which clients may use."""


def lookalike_metadata(depth: int = 4) -> dict[str, Any]:
    """Return metadata with each of the names at every depth, in objects and lists."""
    below = {"held": lookalike_metadata(depth - 1), "listed": [[lookalike_metadata(depth - 1)]]} if depth else {}
    return {**{name: ["refund"] for name in LOOKALIKES}, FREE_NAME: "kept", "own": "kept", **below}


@pytest.mark.parametrize(
    "dialect", [RpcDialect(), RpcV03Dialect(), RestDialect(), RestV03Dialect()], ids=lambda dialect: dialect.name
)
async def test_client_metadata_keys_resembling_reserved_names_are_dropped(
    tmp_path: Path, issuer: Issuer, dialect: Dialect
) -> None:
    """Send them in the metadata of the request, the message and a part, at every depth."""
    (tmp_path / "echo_agent.py").write_text(ECHO_INBOX)
    (tmp_path / "aion.yaml").write_text(AION_YAML % jwt_scheme(issuer).rstrip("\n"))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml")}
    part = {"text": "hello", "metadata": lookalike_metadata()}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [part], "metadata": lookalike_metadata()}
    params = {"message": message, "metadata": lookalike_metadata()}
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    sent = dialect.request("SendMessage", params)
    assert sent is not None
    async with http(build_app(Settings.from_environ(environ))) as client:
        answer = await client.request(sent.method, sent.target, content=sent.body, headers={**sent.headers, **headers})
        assert answer.status_code == 200, answer.text
        listed = await client.get("/tasks?includeArtifacts=true&historyLength=9", headers=headers)
    task = listed.json()["tasks"][0]
    received = json.loads(task["status"]["message"]["parts"][0]["text"])
    assert received["request"].pop(RESERVED_NAME) == [], "the server permits this caller no skill"
    own = {FREE_NAME: "kept", "own": "kept"}
    for where in (received["request"], received["message"]["metadata"], received["message"]["parts"][0]["metadata"]):
        assert {name: where[name] for name in own} == own
        assert where["held"]["listed"][0][0]["held"]["own"] == "kept", "the client's other data stays, at every depth"
    del task["status"]["message"]["parts"]
    for document in (received, task):
        names = set(names_of(document))
        assert names & {"own", "listed"}
        assert not names & set(LOOKALIKES)


def names_of(value: Any) -> list[str]:
    """Return every name in the JSON value, at every depth."""
    if isinstance(value, dict):
        return [*value, *(name for held in value.values() for name in names_of(held))]
    return [name for held in value for name in names_of(held)] if isinstance(value, list) else []
