"""A2AInbox and A2AOutbox: accepted values, copies and serialised forms."""

import copy
import math
import pickle
from typing import Any

import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.protobuf.json_format import MessageToDict
from hypothesis import example, given, settings
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, ValidationError

from aion.shared.types import A2AInbox, A2AOutbox
from aion_core.authoring.json_values import MAX_DEPTH
from aion_core.authoring.types import outbox_of
from aion_core.errors import AgentFailed
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    stream_response,
)
from aion_core.state.langgraph.serializer import serializer
from tests.runtime.unit.authoring.strategies import messages, tasks
from tests.support.rows import each_row

MESSAGE = Message(
    message_id="m-1",
    role=Role.ROLE_AGENT,
    parts=[
        Part(text="Done!"),
        Part(raw=b"\x00\xff", media_type="image/png", filename="a.png"),
        Part(url="https://x/y"),
    ],
    metadata={"n": 1, "deep": {"list": [None, True, 1e300]}},
)
TASK = Task(
    id="t-1",
    status=TaskStatus(state=TaskState.TASK_STATE_WORKING, message=MESSAGE),
    history=[MESSAGE],
    artifacts=[Artifact(artifact_id="a", name="analysis", parts=[Part(text="x")])],
    metadata={"my_key": "my_value"},
)
INBOX = A2AInbox(task=TASK, message=MESSAGE, metadata={"trace": {"id": "x"}, "n": [1, 2.5, None]})
OUTBOXES = [A2AOutbox(message=MESSAGE), A2AOutbox(task=TASK)]


@pytest.mark.parametrize("kept", [INBOX, *OUTBOXES], ids=["inbox", "message", "task"])
class TestAnEnvelope:
    def test_inbox_and_outbox_are_restored_from_checkpoint_without_pickle(self, kept: BaseModel) -> None:
        again = serializer().loads_typed(serializer().dumps_typed({"held": [kept]}))
        assert again == {"held": [kept]}
        assert type(again["held"][0]) is type(kept)

    def test_inbox_and_outbox_are_restored_from_json(self, kept: BaseModel) -> None:
        assert type(kept).model_validate_json(kept.model_dump_json()) == kept
        assert type(kept).model_validate(kept.model_dump()) == kept

    def test_copies_of_inbox_and_outbox_are_independent(self, kept: BaseModel) -> None:
        for other in (copy.deepcopy(kept), kept.model_copy(deep=True), pickle.loads(pickle.dumps(kept))):  # noqa: S301
            assert other == kept
        deep = copy.deepcopy(INBOX)
        deep.message.parts.add(text="more")
        assert deep != INBOX
        assert copy.copy(kept) == kept


def test_inbox_with_unknown_field_is_readable() -> None:
    assert A2AInbox.model_validate({**INBOX.model_dump(), "later": 1}) == INBOX


async def test_pydantic_graph_state_can_contain_inbox_and_outbox() -> None:
    class EnvelopeState(BaseModel):
        a2a_inbox: A2AInbox | None = None
        a2a_outbox: A2AOutbox | None = None
        seen: str = ""

    async def node(state: EnvelopeState) -> dict[str, Any]:
        assert state.a2a_inbox is not None
        assert state.a2a_inbox.message == MESSAGE
        return {"seen": repr(state.a2a_outbox is not None), "a2a_outbox": A2AOutbox(message=MESSAGE)}

    saver = InMemorySaver(serde=serializer())
    graph = StateGraph(EnvelopeState).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    first = await graph.ainvoke(EnvelopeState(a2a_inbox=INBOX), config)
    second = await graph.ainvoke(EnvelopeState(a2a_inbox=INBOX), config)
    assert first["a2a_outbox"] == second["a2a_outbox"] == A2AOutbox(message=MESSAGE)
    assert (first["seen"], second["seen"]) == ("False", "True")


@settings(max_examples=25, deadline=None)
@given(message=messages)
@example(message=Message(metadata={"zero": -0.0}))
def test_every_outbox_message_survives_checkpoint_and_json(message: Message) -> None:
    outbox = A2AOutbox(message=message)
    assert serializer().loads_typed(serializer().dumps_typed(outbox)) == outbox
    assert A2AOutbox.model_validate_json(outbox.model_dump_json()) == outbox


@settings(max_examples=25, deadline=None)
@given(task=tasks)
def test_every_outbox_task_survives_checkpoint_and_json(task: Task) -> None:
    outbox = A2AOutbox(task=task)
    assert serializer().loads_typed(serializer().dumps_typed(outbox)) == outbox
    assert A2AOutbox.model_validate_json(outbox.model_dump_json()) == outbox


# ── Accepted forms ────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=25, deadline=None)
@given(message=messages)
def test_outbox_converts_v03_message_like_a2a_sdk(message: Message) -> None:
    """Convert a message to v0.3 by the SDK, then read it: the result is the original message."""
    older = conversions.to_compat_message(message)
    wanted = conversions.to_core_message(older)
    assert outbox_of(older).message == wanted
    assert outbox_of(older.model_dump(mode="json", exclude_none=True)).message == wanted
    assert outbox_of({"message": older.model_dump(mode="json")}).message == wanted


@settings(max_examples=25, deadline=None)
@given(task=tasks)
def test_outbox_converts_v03_task_like_a2a_sdk(task: Task) -> None:
    older = conversions.to_compat_task(task)
    wanted = conversions.to_core_task(older)
    assert outbox_of(older).task == wanted
    assert outbox_of(older.model_dump(mode="json", exclude_none=True)).task == wanted


OLDER_MESSAGE = {
    "kind": "message",
    "role": "agent",
    "parts": [
        {"kind": "text", "text": "Done!"},
        {"kind": "file", "file": {"bytes": "AP8=", "mimeType": "image/png", "name": "a.png"}},
        {"kind": "file", "file": {"uri": "https://x/y"}},
        {"kind": "data", "data": {"a": 1}},
    ],
}
NEWER_MESSAGE = {
    "role": "ROLE_AGENT",
    "parts": [
        {"text": "Done!"},
        {"raw": "AP8=", "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://x/y"},
        {"data": {"a": 1}},
    ],
}
OLDER_TASK = {
    "kind": "task",
    "status": {"state": "input-required", "message": OLDER_MESSAGE},
    "history": [OLDER_MESSAGE],
    "artifacts": [{"artifactId": "a", "name": "n", "parts": OLDER_MESSAGE["parts"]}],
}
NEWER_TASK = {
    "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": NEWER_MESSAGE},
    "history": [NEWER_MESSAGE],
    "artifacts": [{"artifactId": "a", "name": "n", "parts": NEWER_MESSAGE["parts"]}],
}


@each_row(
    ("value", "message"),
    [
        (A2AOutbox(message=MESSAGE), MessageToDict(MESSAGE)),
        (MESSAGE, MessageToDict(MESSAGE)),
        (
            Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")]),
            {"role": "ROLE_AGENT", "parts": [{"text": "Done!"}]},
        ),
        (OLDER_MESSAGE, NEWER_MESSAGE),
        (NEWER_MESSAGE, NEWER_MESSAGE),
        ({"message": OLDER_MESSAGE}, NEWER_MESSAGE),
        ({"message": MESSAGE, "task": None}, MessageToDict(MESSAGE)),
        ({"message_id": "m", "parts": [{"text": "x", "media_type": "text/plain"}]}, None),
        (v03.Message(message_id="m", role=v03.Role.agent, parts=[v03.Part(root=v03.TextPart(text="x"))]), None),
    ],
)
def test_outbox_accepts_message_in_every_form(value: Any, message: dict[str, Any] | None) -> None:
    """Put a message into the outbox in each accepted form, also without messageId."""
    outbox = outbox_of(value)
    assert outbox.task is None
    assert outbox.message is not None
    if message is not None:
        assert MessageToDict(outbox.message) == message


@each_row(
    ("value", "task"),
    [
        (A2AOutbox(task=TASK), MessageToDict(TASK)),
        (TASK, MessageToDict(TASK)),
        (Task(metadata={"my_key": "my_value"}), {"metadata": {"my_key": "my_value"}}),
        (OLDER_TASK, NEWER_TASK),
        (NEWER_TASK, NEWER_TASK),
        ({"task": {"metadata": {"my_key": "my_value"}}}, {"metadata": {"my_key": "my_value"}}),
    ],
)
def test_outbox_accepts_task_in_every_form(value: Any, task: dict[str, Any]) -> None:
    """Put a task into the outbox in each accepted form, also without id."""
    outbox = outbox_of(value)
    assert outbox.message is None
    assert outbox.task is not None
    assert MessageToDict(outbox.task) == task


def deep(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return dict(value)


@each_row(
    ("value", "says"),
    [
        ("Done!", "neither an A2A Message nor a Task, but str"),
        ({}, "but dict"),
        (TaskStatusUpdateEvent(), "but TaskStatusUpdateEvent"),
        ({"message": MESSAGE, "task": TASK}, "exactly one"),
        ({"message": TASK}, "A2A Message is wanted, and a Task is given"),
        ({"task": OLDER_MESSAGE}, "A2A Task is wanted, and a message is given"),
        ({"parts": [{"texx": "x"}]}, '"texx"'),
        ({"parts": [{"text": "x", "url": "y"}]}, "oneof"),
        ({"parts": [{"raw": "no base64!"}]}, "not base64"),
        ({"role": "assistant", "parts": []}, "assistant"),
        ({"parts": [], "metadata": {"at": object()}}, "plain JSON"),
        ({"parts": [], "metadata": {"x": 10**400}}, "not an A2A Message"),
        (Message(metadata={"x": math.nan}), "cannot be written as JSON"),
        (Message(metadata=deep(MAX_DEPTH)), "levels deep"),
        ({"parts": [], "metadata": deep(200)}, "not an A2A Message"),
        ({"parts": [{"text": "\ud800"}]}, "not an A2A Message"),
    ],
)
def test_invalid_outbox_values_are_refused(value: Any, says: str) -> None:
    with pytest.raises(AgentFailed, match=r"^a2a_outbox .*[.…)]$") as refused:
        outbox_of(value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@each_row("fields", [{}, {"message": MESSAGE, "task": TASK}, {"mesage": MESSAGE}, {"message": "x"}])
def test_outbox_must_contain_either_message_or_task(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        A2AOutbox(**fields)


def test_outbox_of_maximum_depth_can_be_stored_and_read() -> None:
    """protobuf writes values too deep for it to read: an outbox must refuse them."""
    deepest = Message(metadata=deep(MAX_DEPTH - 1), parts=[Part(data=deep_value(MAX_DEPTH - 3))])
    outbox = outbox_of(deepest)
    assert outbox.message is not None
    event = stream_response(TaskStatusUpdateEvent(status=TaskStatus(message=outbox.message)))
    assert type(event).FromString(event.SerializeToString()) == event
    assert serializer().loads_typed(serializer().dumps_typed(outbox)) == outbox


def deep_value(levels: int) -> Any:
    from google.protobuf.json_format import ParseDict
    from google.protobuf.struct_pb2 import Value

    return ParseDict(deep(levels), Value())
