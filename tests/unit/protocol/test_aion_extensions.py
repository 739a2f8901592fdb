"""The Aion extensions through HTTP, in both dialects: what a distribution sends, what an author sees, what goes back."""

import copy
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter, interrupt

from aion.langgraph import AionContext, create_event_router, emit_task_metadata, get_aion_context
from aion_core import log
from tests.support.aion_requests import (
    CARDS,
    DISTRIBUTION,
    EVENT,
    MESSAGE_ACTION,
    MESSAGING,
    PAYLOADS,
    REACTION_ACTION,
    THE_DISTRIBUTION,
    TRACEABILITY,
    request,
)
from tests.support.service import http, parts, send

dialects = pytest.mark.parametrize("old", [False, True], ids=["v1", "v0.3"])
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class State(MessagesState, total=False):
    a2a_inbox: Any


def graph_of(node: Any) -> Any:
    return StateGraph(State, context_schema=AionContext).add_node("node", node).add_edge(START, "node")


async def answered(node: Any, body: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
    """The task that comes back, of either dialect."""
    async with http(parts(graph_of(node)).app()) as client:
        answer = (await client.post("/", json=body, headers=headers)).json()
    assert "result" in answer, answer
    task: dict[str, Any] = answer["result"].get("task", answer["result"])
    assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "completed"), task
    return task


async def seen(body: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[AionContext, dict[str, Any]]:
    """The context, and the state, that the graph finds."""
    found: list[Any] = []

    def node(state: State) -> dict[str, Any]:
        found.extend([get_aion_context(), state])
        return {}

    await answered(node, body, headers)
    return found[0], found[1]


async def refused(body: dict[str, Any]) -> dict[str, Any]:
    """The error; the graph has not run."""

    def node(state: State) -> dict[str, Any]:
        raise AssertionError("refused requests reach no graph")

    async with http(parts(graph_of(node)).app()) as client:
        error: dict[str, Any] = (await client.post("/", json=body)).json()["error"]
    return error


def content(part: dict[str, Any]) -> dict[str, Any]:
    return {key: held for key, held in part.items() if key in ("text", "data", "metadata")}


# ── What comes in ────────────────────────────────────────────────────────────────────────────────────────────────────


@dialects
@pytest.mark.parametrize("kind", ["message", "reaction", "command", "card-action"])
async def test_each_event_reaches_its_handler_with_its_payload(kind: str, old: bool) -> None:
    """R53, R54."""
    ran: list[Any] = []

    def handler(name: str) -> Any:
        async def handle(event: Any, message: Any, thread: Any, state: State) -> None:
            ran.append((name, event, message, state["messages"]))
            await thread.reply(f"{name} it is")

        return handle

    names = ("message", "reaction", "command", "card_action")
    router = create_event_router(**{f"on_{name}": handler(name) for name in names})
    task = await answered(router, request(kind, old=old, text="hello" if kind == "message" else ""))
    ((name, event, message, messages),) = ran
    assert name == event.kind == kind.replace("-", "_")
    assert (event.id, event.source, event.raw) == ("ev-1", "aion://distribution/d-1", None)
    assert event.payload == {**({"text": "hello"} if kind == "message" else {}), **PAYLOADS[kind]}
    assert task["status"]["message"]["parts"][0]["text"] == f"{name} it is"
    if kind == "message":
        assert (message.text, message.user.id, [each.content for each in messages]) == ("hello", "U42", ["hello"])
    else:
        # R49: only what has text makes a HumanMessage.
        assert (message, messages) == (None, [])


async def test_the_request_of_the_documentation_is_a_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "aion-extensions.md").read_text()
    (body,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    context, _ = await seen(json.loads(body))
    assert (context.event.kind, context.event.payload["command"]) == ("command", "/deploy")
    assert (context.thread.network, context.thread.id) == ("Slack", "C-room")


@pytest.mark.parametrize("path", ["/message:send", "/v1/message:send"], ids=["v1", "v0.3"])
async def test_a_command_reaches_its_handler_over_rest_too(path: str) -> None:
    async def on_command(event: Any, thread: Any) -> None:
        await thread.reply(f"{event.payload['command']} for {thread.network}")

    params = request("command")["params"]
    forged = {**params, "metadata": {**params["metadata"], "aion:network": "forged"}}
    if path.startswith("/v1"):
        part = params["message"]["parts"][0]
        inner = {"data": {"data": part["data"]}, "metadata": part["metadata"]}
        message = {**params["message"], "content": [inner]}
        del message["parts"]
        forged["message"] = message
    async with http(parts(graph_of(create_event_router(on_command=on_command))).app()) as client:
        answer = (await client.post(path, json=forged)).json()
    assert "/deploy for Slack" in json.dumps(answer["task"]["status"])


async def test_a_command_with_words_is_in_the_transcript_too() -> None:
    """R49."""
    context, state = await seen(request("command", text="/deploy service=api"))
    assert [message.content for message in state["messages"]] == ["/deploy service=api"]
    assert context.event.kind == "command"


@dialects
async def test_who_and_where_are_those_of_the_source_network(old: bool) -> None:
    """R51, R53, R58, R76."""
    nested = {**PAYLOADS["message"], "contextId": "C-thread", "parentContextId": "C-room", "trajectory": "reply"}
    context, state = await seen(request("message", old=old, text="hi", payload=nested))
    thread = context.thread
    assert (thread.id, thread.parent_id, thread.network) == ("C-thread", "C-room", "Slack")
    assert thread.default_reply_target == "C-thread"
    assert context.message is not None
    assert context.message.user.id == "U42"
    assert (context.self.id, context.self.name) == ("p-1", "Helper")
    inbox = state["a2a_inbox"]
    assert inbox.metadata == {DISTRIBUTION: THE_DISTRIBUTION, "aion:network": "Slack", "aion:senderId": "U42"}
    assert len(inbox.message.parts) == 2


async def test_a_distribution_without_an_event_says_who_speaks_and_in_which_network() -> None:
    context, state = await seen(request(text="hi", contextId="c-1"))
    assert context.message is not None
    assert (context.message.user.id, context.thread.network) == ("sender-1", "Slack")
    assert (context.thread.id, context.thread.default_reply_target) == ("c-1", None)
    assert context.event.payload == {"text": "hi"}
    assert state["a2a_inbox"].metadata["aion:senderId"] == "sender-1"


async def test_a_request_of_a_plain_client_is_the_owners_in_its_own_context() -> None:
    context, state = await seen(send("hi", contextId="c-1"))
    assert context.message is not None
    assert (context.message.user.id, context.thread.id, context.thread.network) == ("anonymous", "c-1", None)
    assert context.self.id == "test"
    assert state["a2a_inbox"].metadata == {}


async def test_the_event_as_its_network_had_it_comes_along_whole() -> None:
    source = {"provider": "slack", "event": {"type": "message", "ts": 1715, "blocks": [{"kept": True, "aion:x": 1}]}}
    context, _ = await seen(request("message", text="hi", source=source))
    assert context.event.raw == {
        "provider": "slack",
        "event": {"type": "message", "ts": 1715, "blocks": [{"kept": True}]},
    }


async def test_snake_case_null_and_older_uris_are_read() -> None:
    old_uri = DISTRIBUTION.replace("/a2a/extensions/", "/extensions/")
    payload = {"user_id": "U7", "context_id": "C-2", "message_id": "9", "trajectory": "timeline", "later": 1}
    metadata = {
        DISTRIBUTION: None,
        TRACEABILITY: None,
        old_uri: {
            "sender_id": "s",
            "distribution": {
                "endpoint_type": "Twitter",
                "identities": [{"kind": "agent", "id": "a", "networkType": "x"}],
            },
        },
    }
    context, _ = await seen(request("message", text="hi", payload=payload, metadata=metadata))
    assert (context.thread.id, context.thread.network, context.self.id) == ("C-2", "Twitter", "a")
    assert context.event.payload["userId"] == "U7"
    assert "later" not in context.event.payload


async def test_the_distribution_is_read_from_the_messages_metadata_too() -> None:
    body = request("message", text="hi", metadata={}, extensions=[])
    body["params"]["message"]["metadata"][DISTRIBUTION] = THE_DISTRIBUTION
    context, _ = await seen(body)
    assert (context.thread.network, context.self.id) == ("Slack", "p-1")


async def test_an_event_of_a_type_that_is_not_known_is_a_message() -> None:
    body = request(text="hi")
    body["params"]["message"]["metadata"] = {EVENT: {"type": "org.example.other.1.0.0", "source": "s", "id": "1"}}
    context, _ = await seen(body)
    assert context.event.kind == "message"
    assert context.message is not None


async def test_a_message_event_without_a_payload_is_still_a_message() -> None:
    body = request("message", text="hi")
    del body["params"]["message"]["parts"][1]
    context, _ = await seen(body)
    assert (context.event.kind, context.event.id, context.event.payload) == ("message", "ev-1", {"text": "hi"})
    assert context.thread.default_reply_target is None


WITHOUT_KEY = {key: value for key, value in PAYLOADS["reaction"].items() if key != "reactionKey"}
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no reaction key": (request("reaction", payload=WITHOUT_KEY), "message.parts[0].data.reactionKey"),
    "empty command": (
        request("command", payload={**PAYLOADS["command"], "command": ""}),
        "message.parts[0].data.command",
    ),
    "trajectory of its own": (
        request("message", text="hi", payload={**PAYLOADS["message"], "trajectory": "s3cr3t"}),
        "message.parts[1].data.trajectory",
    ),
    "payload that is no object": (request("command", payload=["s3cr3t"]), "message.parts[0].data"),  # type: ignore[arg-type]
    "network that is no text": (
        request(text="hi", metadata={DISTRIBUTION: {"distribution": {"endpointType": {"k": "s3cr3t"}}}}),
        f"metadata.{DISTRIBUTION}.distribution.endpointType",
    ),
    "identities that are none": (
        request(text="hi", metadata={DISTRIBUTION: {"distribution": {"identities": [{"id": 7}]}}}),
        f"metadata.{DISTRIBUTION}.distribution.identities[0].id",
    ),
    "distribution that is a text": (request(text="hi", metadata={DISTRIBUTION: "s3cr3t"}), f"metadata.{DISTRIBUTION}"),
    "trace that is no text": (
        request(text="hi", metadata={TRACEABILITY: {"traceparent": 5}}),
        f"metadata.{TRACEABILITY}.traceparent",
    ),
}


@pytest.mark.parametrize(("body", "field"), list(MALFORMED.values()), ids=list(MALFORMED))
async def test_a_malformed_payload_is_refused_by_its_field_and_never_by_its_value(
    body: dict[str, Any], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A router that loses a command in silence is worse; an environment's secrets are nobody's to read."""
    with caplog.at_level(logging.INFO):
        error = await refused(body)
    assert error["code"] == -32602
    assert error["message"].startswith(f"{field} cannot be used: ")
    assert [each["field"] for detail in error["data"] for each in detail.get("fieldViolations", [])] == [field]
    assert "s3cr3t" not in str(error) + caplog.text


async def test_a_malformed_payload_is_refused_in_the_older_dialect_and_in_a_stream_too() -> None:
    body = request("reaction", old=True, payload=WITHOUT_KEY)
    assert (await refused(body))["code"] == -32602
    streamed = request("reaction", stream=True, payload=WITHOUT_KEY)
    assert (await refused(streamed))["code"] == -32602


@pytest.mark.parametrize("kind", ["reaction", "command", "card-action"])
async def test_an_event_that_names_no_payload_is_refused(kind: str) -> None:
    body = request(kind, text="hi")
    del body["params"]["message"]["parts"][1]
    error = await refused(body)
    assert error["code"] == -32602
    assert f"to.aion.distribution.{kind}.1.0.0" in error["message"]
    assert "EventPayload" in error["message"]


async def test_an_envelope_without_a_type_is_refused() -> None:
    body = request("command")
    del body["params"]["message"]["metadata"][EVENT]["type"]
    assert (await refused(body))["message"].startswith(f"message.metadata.{EVENT}.type cannot be used")


# ── Names of the server's own ────────────────────────────────────────────────────────────────────────────────────────


@dialects
async def test_the_servers_keys_are_dropped_from_what_a_client_sends_at_every_depth(old: bool) -> None:
    """R76, SECURITY 87: neither the graph nor the task ever holds them."""
    forged = {"aion:network": "forged", "own": [{"AION:senderId": "forged", "kept": 1}], "ａｉｏｎ：x": "forged"}
    body = request(old=old, text="hi", metadata=copy.deepcopy(forged))
    body["params"]["message"]["metadata"] = copy.deepcopy(forged)
    body["params"]["message"]["parts"][0]["metadata"] = copy.deepcopy(forged)
    context, state = await seen(body)
    assert "forged" not in str(context.inbox)
    assert context.thread.network is None
    assert state["a2a_inbox"].metadata == {"own": [{"kept": 1}]}
    task = await answered(lambda state: {"messages": [AIMessage("ok")]}, body)
    assert "forged" not in str(task)
    assert "kept" in str(task)


@dialects
async def test_an_author_cannot_set_them_either(old: bool) -> None:
    """R76: by a reply's metadata, a task's metadata, or the outbox."""

    async def node(state: State, writer: StreamWriter) -> dict[str, Any]:
        emit_task_metadata(writer, {"aion:network": "forged", "mine": 1})
        metadata = {"aion:target": "forged", "aion:senderId": "forged", "mine": 2}
        await get_aion_context().thread.reply("there", metadata=metadata)
        return {}

    task = await answered(node, request("message", old=old, text="hi"))
    assert task["metadata"] == {"mine": 1}
    assert task["status"]["message"]["metadata"] == {"mine": 2, "aion:target": "C-room"}


# ── Where answers go ─────────────────────────────────────────────────────────────────────────────────────────────────

IN_A_DM = {"userId": "U42", "contextId": "D-1", "messageId": "7", "trajectory": "direct-message"}
IN_A_THREAD = {
    "userId": "U42",
    "contextId": "C-thread",
    "messageId": "1715.103",
    "trajectory": "reply",
    "parentContextId": "C-room",
    "replyToMessageId": "1715.101",
}
TARGETS = [
    (IN_A_DM, {"trajectory": "direct-message", "contextId": "D-1", "userId": "U42", "replyToMessageId": "7"}),
    (
        IN_A_THREAD,
        {
            "trajectory": "reply",
            "contextId": "C-thread",
            "parentContextId": "C-room",
            "replyToMessageId": "1715.103",
        },
    ),
    (
        PAYLOADS["message"],
        {"trajectory": "conversation", "contextId": "C-room", "replyToMessageId": "1715.100"},
    ),
]


@dialects
@pytest.mark.parametrize(("payload", "action"), TARGETS, ids=["direct message", "thread reply", "mention"])
async def test_a_reply_inherits_where_its_message_came_from(
    payload: dict[str, Any], action: dict[str, Any], old: bool
) -> None:
    """R58."""

    async def node(state: State) -> dict[str, Any]:
        await get_aion_context().thread.reply("hello")
        return {}

    message = (await answered(node, request("message", old=old, text="hi", payload=payload)))["status"]["message"]
    text, routing = message["parts"]
    assert text["text"] == "hello"
    assert content(routing) == {"data": action, "metadata": MESSAGE_ACTION}
    assert message["extensions"] == [MESSAGING]
    assert message["metadata"]["aion:target"] == action["contextId"]


async def test_a_command_is_answered_where_it_was_given() -> None:
    """R58."""

    async def on_command(thread: Any) -> None:
        await thread.reply("done")

    task = await answered(create_event_router(on_command=on_command), request("command"))
    action = {"trajectory": "conversation", "contextId": "C-room"}
    assert task["status"]["message"]["parts"][1]["data"] == action


@pytest.mark.parametrize(
    ("target", "action"),
    [
        ("C-other", {"trajectory": "conversation", "contextId": "C-other"}),
        (
            {"trajectory": "direct-message", "context_id": "D-9", "userId": "U9"},
            {"trajectory": "direct-message", "contextId": "D-9", "userId": "U9"},
        ),
        (None, {"trajectory": "conversation", "contextId": "C-room", "replyToMessageId": "1715.100"}),
    ],
    ids=["a conversation", "a whole action", "none"],
)
async def test_a_post_goes_where_its_author_says(target: Any, action: dict[str, Any]) -> None:
    """R58: an override is explicit."""

    async def node(state: State) -> dict[str, Any]:
        await get_aion_context().thread.post("hello", target=target)
        return {}

    message = (await answered(node, request("message", text="hi")))["status"]["message"]
    assert content(message["parts"][1]) == {"data": action, "metadata": MESSAGE_ACTION}
    assert message["metadata"]["aion:target"] == action["contextId"]


@dialects
async def test_the_use_of_a_card_answers_a_question(old: bool) -> None:
    """Section 3, interrupts: the answer is the action, not how the network had it."""

    def node(state: State) -> dict[str, Any]:
        answer = interrupt("May I?")
        return {"messages": [AIMessage(f"{answer['actionId']} by {get_aion_context().event.payload['userId']}")]}

    async with http(parts(graph_of(node)).app()) as client:
        await client.post("/", json=request(old=old, text="do it", contextId="c-1"))
        source = {"provider": "slack", "event": {"type": "block_actions"}}
        body = request("card-action", old=old, source=source, messageId="m-2", contextId="c-1")
        result = (await client.post("/", json=body)).json()["result"]
    task = result.get("task", result)
    assert task["status"]["message"]["parts"][0]["text"] == "approve by U42"


async def test_a_target_that_is_none_is_the_authors_mistake() -> None:
    async def node(state: State) -> dict[str, Any]:
        with pytest.raises(ValueError, match="post's target is no MessageActionPayload: contextId: Field required"):
            await get_aion_context().thread.post("hello", target={"trajectory": "timeline"})
        return {}

    await answered(node, request("message", text="hi"))


async def test_a_message_that_says_itself_where_it_goes_is_left_so() -> None:
    """R58, S2: by the buffer or by the outbox."""
    own = {"data": {"trajectory": "timeline", "contextId": "T"}, "metadata": MESSAGE_ACTION}

    async def node(state: State) -> dict[str, Any]:
        await get_aion_context().thread.reply({"parts": [{"text": "hello"}, own]})
        return {}

    message = (await answered(node, request("message", text="hi")))["status"]["message"]
    assert message["parts"] == [{"text": "hello"}, own]


async def test_a_plain_client_is_told_nothing_of_the_extension() -> None:
    async def node(state: State) -> dict[str, Any]:
        await get_aion_context().thread.reply("hello")
        await get_aion_context().thread.post("there", target="room-9")
        return {}

    task = await answered(node, send("hi"))
    assert MESSAGING not in str(task)
    assert task["status"]["message"]["parts"] == [{"text": "there"}]
    assert task["status"]["message"]["metadata"] == {"aion:target": "room-9"}


async def test_what_a_graph_just_returns_is_one_text_part() -> None:
    """R80: where an answer names no place it goes where the question came from."""
    message = (await answered(lambda state: {"messages": [AIMessage("ok")]}, request("message", text="hi")))["status"]
    assert message["message"]["parts"] == [{"text": "ok"}]


@dialects
async def test_a_reaction_is_made_in_the_source_networks_own_ids(old: bool) -> None:
    async def node(state: State) -> dict[str, Any]:
        message = get_aion_context().message
        assert message is not None
        await message.react("eyes")
        await message.react("thumbsup")
        return {"messages": [AIMessage("ok")]}

    first, second = (await answered(node, request("message", old=old, text="hi")))["artifacts"]
    assert (first["artifactId"], first["name"]) == ("aion:reaction", "Reaction")
    assert first["metadata"] == REACTION_ACTION
    assert first["extensions"] == [MESSAGING]
    done = {"contextId": "C-room", "messageId": "1715.100", "operation": "add"}
    assert content(first["parts"][0]) == {"data": {**done, "reactionKey": "eyes"}, "metadata": REACTION_ACTION}
    assert second["parts"][0]["data"] == {**done, "reactionKey": "thumbsup"}
    assert second["artifactId"] != first["artifactId"]


# ── Traces, and the card ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_trace_is_the_turns_from_the_payload_or_from_the_headers(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"traceparent": TRACEPARENT, "tracestate": "v=1,w=2", "baggage": "tenant=a%20b;p=1, channel=cli"}
    with caplog.at_level(logging.INFO, "aion_core.tasks.runner"):
        _, state = await seen(send("hi"), headers)
    assert state["a2a_inbox"].metadata[TRACEABILITY] == {
        "traceparent": TRACEPARENT,
        "tracestate": [{"key": "v", "value": "1"}, {"key": "w", "value": "2"}],
        "baggage": {"tenant": "a b", "channel": "cli"},
    }
    assert {log.labels_of(record).get("traceparent") for record in caplog.records} == {TRACEPARENT}
    own = {"traceparent": TRACEPARENT.replace("4bf9", "aaaa"), "baggage": {"aion.sender.id": "cli"}}
    _, state = await seen(request(text="hi", metadata={TRACEABILITY: own}), headers)
    assert state["a2a_inbox"].metadata == {TRACEABILITY: own}


@pytest.mark.parametrize("traceparent", ["", "garbage", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff{TRACEPARENT[2:]}"])
async def test_a_header_that_is_no_trace_is_left_aside(traceparent: str) -> None:
    """W3C Trace Context 2.3: it is never an error."""
    _, state = await seen(send("hi"), {"traceparent": traceparent, "baggage": "a=1"})
    assert state["a2a_inbox"].metadata == {}


async def test_the_card_declares_the_extensions_and_requires_none() -> None:
    async with http(parts(graph_of(lambda state: {})).app()) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
    declared = {extension["uri"]: extension for extension in card["capabilities"]["extensions"]}
    assert declared.keys() >= {DISTRIBUTION, EVENT, MESSAGING, CARDS, TRACEABILITY}
    assert not any(extension.get("required") for extension in declared.values())
    assert all(extension["description"] for extension in declared.values())


# ── The same for an ADK agent ────────────────────────────────────────────────────────────────────────────────────────


@dialects
async def test_an_adk_agent_finds_the_same_and_answers_the_same(old: bool) -> None:
    # Here, so that the rest of this file runs without ADK.
    from google.adk.agents import BaseAgent

    from tests.support.adk import served

    async def run(self: BaseAgent, ctx: Any) -> Any:
        context = get_aion_context()
        assert context.message is not None
        await context.message.react("eyes")
        await context.thread.reply(f"{context.message.user.id} of {ctx.a2a_inbox.metadata['aion:network']}")
        return
        yield

    answering = type("Answering", (BaseAgent,), {"_run_async_impl": run})(name="answering")
    async with http(parts(served(answering)).app()) as client:
        answer = (await client.post("/", json=request("message", old=old, text="hi", payload=IN_A_DM))).json()
    task = answer["result"].get("task", answer["result"])
    text, routing = task["status"]["message"]["parts"]
    assert text["text"] == "U42 of Slack"
    assert content(routing) == {"data": TARGETS[0][1], "metadata": MESSAGE_ACTION}
    (reaction,) = task["artifacts"]
    assert (reaction["artifactId"], reaction["metadata"]) == ("aion:reaction", REACTION_ACTION)
