"""Aion extensions over HTTP, in both versions: requests of a distribution, context of the author, and answers."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter, interrupt

from aion.langgraph import AionContext, create_event_router, emit_task_metadata, get_aion_context
from aion.langgraph.stream import emit_message
from aion_core import log
from tests.runtime.unit.agents.executor import executors
from tests.runtime.unit.protocol.aion_requests import (
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
from tests.support.rows import each_row
from tests.support.service import http, parts, send

dialects = pytest.mark.parametrize("old", [False, True], ids=["v1", "v0.3"])
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class ExtensionState(MessagesState, total=False):
    a2a_inbox: Any


def graph_of(node: Any) -> Any:
    return StateGraph(ExtensionState, context_schema=AionContext).add_node("node", node).add_edge(START, "node")


async def answered(node: Any, body: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the resulting task, of either version."""
    async with http(parts(graph_of(node)).app()) as client:
        answer = (await client.post("/", json=body, headers=headers)).json()
    assert "result" in answer, answer
    task: dict[str, Any] = answer["result"].get("task", answer["result"])
    assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "completed"), task
    return task


async def seen(body: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[AionContext, dict[str, Any]]:
    """Return the context and the state that a node of the graph receives."""
    found: list[Any] = []

    def node(state: ExtensionState) -> dict[str, Any]:
        found.extend([get_aion_context(), state])
        return {}

    await answered(node, body, headers)
    return found[0], found[1]


async def refused(body: dict[str, Any]) -> dict[str, Any]:
    """Send a request that the server must refuse; return the error, after checking that the graph has not run."""

    def node(state: ExtensionState) -> dict[str, Any]:
        raise AssertionError("refused requests reach no graph")

    async with http(parts(graph_of(node)).app()) as client:
        error: dict[str, Any] = (await client.post("/", json=body)).json()["error"]
    return error


def content(part: dict[str, Any]) -> dict[str, Any]:
    return {key: held for key, held in part.items() if key in ("text", "data", "metadata")}


# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dialects
@pytest.mark.parametrize("kind", ["message", "reaction", "command", "card-action"])
async def test_event_router_calls_handler_of_event_kind_with_payload(kind: str, old: bool) -> None:
    ran: list[Any] = []

    def handler(name: str) -> Any:
        async def handle(event: Any, message: Any, thread: Any, state: ExtensionState) -> None:
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
        # Events other than `message` have no text, so the graph gets no HumanMessage.
        assert (message, messages) == (None, [])


async def test_command_request_in_documentation_is_read_as_command_event() -> None:
    page = (Path(__file__).parents[4] / "docs" / "aion-extensions.md").read_text()
    (body,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    context, _ = await seen(json.loads(body))
    assert (context.event.kind, context.event.payload["command"]) == ("command", "/deploy")
    assert (context.thread.network, context.thread.id) == ("Slack", "C-room")


@dialects
async def test_sender_and_thread_have_ids_from_source_network(old: bool) -> None:
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


async def test_distribution_extension_sets_sender_and_network() -> None:
    context, state = await seen(request(text="hi", contextId="c-1"))
    assert context.message is not None
    assert (context.message.user.id, context.thread.network) == ("sender-1", "Slack")
    assert (context.thread.id, context.thread.default_reply_target) == ("c-1", None)
    assert context.event.payload == {"text": "hi"}
    assert state["a2a_inbox"].metadata["aion:senderId"] == "sender-1"


async def test_reserved_keys_are_removed_from_event_of_source_network() -> None:
    source = {"provider": "slack", "event": {"type": "message", "ts": 1715, "blocks": [{"kept": True, "aion:x": 1}]}}
    context, _ = await seen(request("message", text="hi", source=source))
    assert context.event.raw == {
        "provider": "slack",
        "event": {"type": "message", "ts": 1715, "blocks": [{"kept": True}]},
    }


async def test_snake_case_names_null_values_and_old_uris_are_accepted() -> None:
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


async def test_distribution_extension_is_read_from_message_metadata() -> None:
    body = request("message", text="hi", metadata={}, extensions=[])
    body["params"]["message"]["metadata"][DISTRIBUTION] = THE_DISTRIBUTION
    context, _ = await seen(body)
    assert (context.thread.network, context.self.id) == ("Slack", "p-1")


async def test_aion_event_of_unknown_type_becomes_message() -> None:
    body = request(text="hi")
    body["params"]["message"]["metadata"] = {EVENT: {"type": "org.example.other.1.0.0", "source": "s", "id": "1"}}
    context, _ = await seen(body)
    assert context.event.kind == "message"
    assert context.message is not None


async def test_aion_message_event_needs_no_payload() -> None:
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


@each_row(("body", "field"), list(MALFORMED.values()))
async def test_malformed_payload_error_names_field_only(
    body: dict[str, Any], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Refuse a malformed payload instead of ignoring it; the error names the field, as its value may be secret."""
    with caplog.at_level(logging.INFO):
        error = await refused(body)
    assert error["code"] == -32602
    assert error["message"].startswith(f"Invalid parameters. {field} cannot be used: ")
    assert [each["field"] for detail in error["data"] for each in detail.get("fieldViolations", [])] == [field]
    assert "s3cr3t" not in str(error) + caplog.text


@pytest.mark.parametrize("kind", ["reaction", "command", "card-action"])
async def test_aion_event_without_payload_is_refused(kind: str) -> None:
    body = request(kind, text="hi")
    del body["params"]["message"]["parts"][1]
    error = await refused(body)
    assert error["code"] == -32602
    assert f"to.aion.distribution.{kind}.1.0.0" in error["message"]
    assert "EventPayload" in error["message"]


async def test_aion_event_without_type_is_refused() -> None:
    body = request("command")
    del body["params"]["message"]["metadata"][EVENT]["type"]
    assert (await refused(body))["message"].startswith(f"Invalid parameters. message.metadata.{EVENT}.type cannot")


# ── Reserved keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dialects
async def test_reserved_metadata_keys_set_by_agent_are_dropped(old: bool) -> None:
    """Set reserved keys in a reply's metadata, a task's metadata or the outbox."""

    async def node(state: ExtensionState, writer: StreamWriter) -> dict[str, Any]:
        emit_task_metadata(writer, {"aion:network": "forged", "mine": 1})
        metadata = {"aion:target": "forged", "aion:senderId": "forged", "mine": 2}
        await get_aion_context().thread.reply("there", metadata=metadata)
        return {}

    task = await answered(node, request("message", old=old, text="hi"))
    assert task["metadata"] == {"mine": 1}
    assert task["status"]["message"]["metadata"] == {"mine": 2, "aion:target": "C-room"}


# ── Targets of answers ────────────────────────────────────────────────────────────────────────────────────────────────

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
async def test_reply_is_sent_to_conversation_of_received_message(
    payload: dict[str, Any], action: dict[str, Any], old: bool
) -> None:

    async def node(state: ExtensionState) -> dict[str, Any]:
        await get_aion_context().thread.reply("hello")
        return {}

    message = (await answered(node, request("message", old=old, text="hi", payload=payload)))["status"]["message"]
    text, routing = message["parts"]
    assert text["text"] == "hello"
    assert content(routing) == {"data": action, "metadata": MESSAGE_ACTION}
    assert message["extensions"] == [MESSAGING]
    assert message["metadata"]["aion:target"] == action["contextId"]


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
async def test_thread_post_is_sent_to_target_chosen_by_agent(target: Any, action: dict[str, Any]) -> None:
    """The author's explicit target overrides the one inherited from the received message."""

    async def node(state: ExtensionState) -> dict[str, Any]:
        await get_aion_context().thread.post("hello", target=target)
        return {}

    message = (await answered(node, request("message", text="hi")))["status"]["message"]
    assert content(message["parts"][1]) == {"data": action, "metadata": MESSAGE_ACTION}
    assert message["metadata"]["aion:target"] == action["contextId"]


@dialects
async def test_chat_card_action_answers_interrupt_of_graph(old: bool) -> None:
    """Answer an interrupt by a card action: `interrupt` returns the action, not the event of the source network."""

    def node(state: ExtensionState) -> dict[str, Any]:
        answer = interrupt("May I?")
        return {"messages": [AIMessage(f"{answer['actionId']} by {get_aion_context().event.payload['userId']}")]}

    async with http(parts(graph_of(node)).app()) as client:
        await client.post("/", json=request(old=old, text="do it", contextId="c-1"))
        source = {"provider": "slack", "event": {"type": "block_actions"}}
        body = request("card-action", old=old, source=source, messageId="m-2", contextId="c-1")
        result = (await client.post("/", json=body)).json()["result"]
    task = result.get("task", result)
    assert task["status"]["message"]["parts"][0]["text"] == "approve by U42"


async def test_invalid_post_target_raises_error_for_author() -> None:
    async def node(state: ExtensionState) -> dict[str, Any]:
        with pytest.raises(ValueError, match="post's target is not a MessageActionPayload: contextId: Field required"):
            await get_aion_context().thread.post("hello", target={"trajectory": "timeline"})
        return {}

    await answered(node, request("message", text="hi"))


async def test_message_target_chosen_by_agent_is_not_replaced() -> None:
    """Reply with a target: the server does not replace it by the target of the request."""
    own = {"data": {"trajectory": "timeline", "contextId": "T"}, "metadata": MESSAGE_ACTION}

    async def node(state: ExtensionState) -> dict[str, Any]:
        await get_aion_context().thread.reply({"parts": [{"text": "hello"}, own]})
        return {}

    message = (await answered(node, request("message", text="hi")))["status"]["message"]
    assert message["parts"] == [{"text": "hello"}, own]


async def test_client_without_extension_receives_no_extension_data() -> None:
    async def node(state: ExtensionState) -> dict[str, Any]:
        await get_aion_context().thread.reply("hello")
        await get_aion_context().thread.post("there", target="room-9")
        return {}

    task = await answered(node, send("hi"))
    assert MESSAGING not in str(task)
    assert task["status"]["message"]["parts"] == [{"text": "there"}]
    assert task["status"]["message"]["metadata"] == {"aion:target": "room-9"}


@dialects
@pytest.mark.parametrize(("payload", "action"), TARGETS, ids=["direct message", "thread reply", "mention"])
async def test_plain_answer_carries_target_of_received_message(
    payload: dict[str, Any], action: dict[str, Any], old: bool
) -> None:
    """A returned AIMessage goes where `thread.reply` would send it, and the client reads the place in it (R58)."""
    asked = request("message", old=old, text="hi", payload=payload)
    message = (await answered(lambda state: {"messages": [AIMessage("ok")]}, asked))["status"]["message"]
    assert_sent_to(message, "ok", action)


async def test_intermediate_message_and_question_carry_target() -> None:
    """The node runs again for the answer: its message keeps its id and is not repeated, although the target changes."""

    def node(state: ExtensionState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessage("Wait.", id="wait"))
        return {"messages": [AIMessage(interrupt("May I?"))]}

    async with http(parts(graph_of(node)).app()) as client:
        asked = request("message", text="do it", contextId="c-1")
        first = (await client.post("/", json=asked)).json()["result"]["task"]
        answer = request("message", text="yes", messageId="m-2", contextId="c-1", payload=IN_A_THREAD)
        second = (await client.post("/", json=answer)).json()["result"]["task"]
    assert_sent_to(first["status"]["message"], "May I?", TARGETS[2][1])
    waits = [message for message in second["history"] if message["parts"][0].get("text") == "Wait."]
    assert len(waits) == 1
    assert_sent_to(waits[0], "Wait.", TARGETS[2][1])
    assert_sent_to(second["status"]["message"], "yes", TARGETS[1][1])


async def test_plain_answer_of_executor_carries_target() -> None:
    async def execute(context: Any, queue: Any, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message([Part(text="Wait.")]))
        await updater.complete(updater.new_agent_message([Part(text="ok")]))

    app = executors.served(execute).parts.app()
    async with http(app) as client:
        asked = request("message", text="hi", payload=IN_A_THREAD)
        task = (await client.post("/", json=asked)).json()["result"]["task"]
    assert_sent_to(task["status"]["message"], "ok", TARGETS[1][1])
    assert_sent_to(task["history"][1], "Wait.", TARGETS[1][1])


def assert_sent_to(message: dict[str, Any], text: str, action: dict[str, Any]) -> None:
    """Check that the message has the text, and the target as `thread.reply` writes it."""
    said, *_, routing = message["parts"]
    assert said["text"] == text
    assert content(routing) == {"data": action, "metadata": MESSAGE_ACTION}
    assert message["extensions"] == [MESSAGING]
    assert message["metadata"]["aion:target"] == action["contextId"]


@dialects
async def test_reaction_artifact_contains_message_id_from_source_network(old: bool) -> None:
    async def node(state: ExtensionState) -> dict[str, Any]:
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


# ── Traces, and the card ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_trace_context_comes_from_headers_unless_metadata_contains_it(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"traceparent": TRACEPARENT, "tracestate": "v=1,w=2", "baggage": "tenant=a%20b;p=1, channel=cli"}
    log.install()
    with caplog.at_level(logging.INFO, "aion_core.engine.runner"):
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


async def test_card_declares_optional_extensions() -> None:
    async with http(parts(graph_of(lambda state: {})).app()) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
    declared = {extension["uri"]: extension for extension in card["capabilities"]["extensions"]}
    assert declared.keys() >= {DISTRIBUTION, EVENT, MESSAGING, CARDS, TRACEABILITY}
    assert not any(extension.get("required") for extension in declared.values())
    assert all(extension["description"] for extension in declared.values())


# ── ADK agents ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dialects
async def test_adk_agent_receives_aion_context_and_replies_through_its_thread(old: bool) -> None:
    # Import ADK here, because the other tests of this file run without ADK.
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
