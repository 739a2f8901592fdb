"""Streams with `answer: artifact`: what a client has seen of each artifact, whatever part of the stream it has received."""

from typing import Any

import pytest

from aion_core.engine.records import COMPLETE, CUT, Delta
from aion_core.engine.stream.artifact_form import ArtifactForm
from aion_core.engine.stream.broadcast import Resumed, ResumedText, StreamItem
from aion_core.protocol.answer_artifacts import as_artifact
from aion_core.protocol.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from aion_core.web.sse import as_event

TASK = Task(id="t", context_id="c")
ASKED = Message(message_id="m-1", role=Role.ROLE_USER)
IN_A = ResumedText({"messageId": "a", "node": "n"})
WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED


def chunk(text: str, append: bool = True, message_id: str = "a") -> Delta:
    return Delta(text, append, speaker=None if append else {"messageId": message_id, "node": "n"})


def opening(text: str, message_id: str = "a") -> Delta:
    return chunk(text, append=False, message_id=message_id)


def closing(reason: str = COMPLETE) -> Delta:
    return Delta("", append=True, last=True, reason=reason)


def said(text: str, message_id: str = "a", **fields: Any) -> Message:
    return Message(message_id=message_id, role=Role.ROLE_AGENT, parts=[Part(text=text)], **fields)


def recorded(message: Message) -> TaskStatusUpdateEvent:
    """Return the event of a message of the turn."""
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=WORKING, message=message))


def answered(message: Message) -> TaskArtifactUpdateEvent:
    """Return the event of the turn's answer."""
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=as_artifact(message, ASKED), last_chunk=True)


def ended(state: TaskState = COMPLETED, message: Message | None = None) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state, message=message))


class Client:
    """A client that keeps artifacts as A2A 4.2.2 says, and counts what a client that only appends would show."""

    def __init__(self, *payloads: Any, resumes: bool = False, ends_whole: bool = False) -> None:
        self.artifacts: dict[str, str] = {}
        self.last_chunks: list[str] = []
        self.shown = ""
        self.statuses: list[str] = []
        self.updates: list[TaskArtifactUpdateEvent] = []
        form = ArtifactForm(ends_whole=ends_whole)
        start = Resumed("t", "c") if resumes else TASK
        items = [StreamItem(str(number), payload) for number, payload in enumerate((start, *payloads))]
        # Each item comes in a batch of its own, because the form must not depend on the batches.
        for item in (each for one in items for each in form.of([one])):
            event = as_event(item.payload, TASK) if isinstance(item.payload, Delta) else item.payload
            if isinstance(event, TaskArtifactUpdateEvent):
                self._update(event)
            elif isinstance(event, TaskStatusUpdateEvent):
                self.statuses.append("".join(part.text for part in event.status.message.parts))

    def _update(self, event: TaskArtifactUpdateEvent) -> None:
        self.updates.append(event)
        text = "".join(part.text for part in event.artifact.parts)
        known = self.artifacts.get(event.artifact.artifact_id, "") if event.append else ""
        self.artifacts[event.artifact.artifact_id] = known + text
        self.shown += text
        if event.last_chunk:
            self.last_chunks.append(event.artifact.artifact_id)


def test_streamed_answer_is_one_artifact() -> None:
    client = Client(opening("Hel"), chunk("lo"), closing(), answered(said("Hello")), ended())
    assert (client.artifacts, client.shown, client.last_chunks) == ({"a": "Hello"}, "Hello", ["a"])
    assert client.statuses == [""]
    first, *_, last = client.updates
    assert dict(first.artifact.metadata) == {"aion:message": True, "node": "n"}
    assert dict(last.artifact.metadata) == {"aion:answers": "m-1"}


def test_answer_without_stream_is_sent_whole() -> None:
    client = Client(answered(said("Hello")), ended())
    assert (client.artifacts, client.shown, client.last_chunks) == ({"a": "Hello"}, "Hello", ["a"])


def test_changed_answer_replaces_its_streamed_text() -> None:
    client = Client(opening("Teh end"), closing(), answered(said("The end")), ended())
    assert (client.artifacts, client.last_chunks) == ({"a": "The end"}, ["a"])
    assert not client.updates[-1].append


def test_further_parts_are_appended_to_the_streamed_text() -> None:
    answer = said("Hello")
    answer.parts.add(text=" again")
    client = Client(opening("Hello"), closing(), answered(answer), ended())
    assert (client.artifacts, client.shown, client.last_chunks) == ({"a": "Hello again"}, "Hello again", ["a"])


def test_words_beside_tool_call_are_artifact_of_their_own() -> None:
    """The message of the first text is recorded when the second text has begun, or just before."""
    for record_first in (True, False):
        words = [recorded(said("Let me see."))]
        second = [opening("It rains", "b"), chunk(".")]
        between = [*words, *second] if record_first else [*second, *words]
        client = Client(
            opening("Let me "), chunk("see."), closing(), *between, closing(), answered(said("It rains.", "b")), ended()
        )
        assert client.artifacts == {"a": "Let me see.", "b": "It rains."}
        assert (client.shown, client.last_chunks) == ("Let me see.It rains.", ["a", "b"])
        assert client.statuses == ["", ""]


@pytest.mark.parametrize("streams", [True, False])
def test_message_that_becomes_the_answer_is_marked(streams: bool) -> None:
    """A reply of `thread.reply` is recorded before it is known to be the answer. Its text isn't sent again."""
    chunks = [opening("Do"), chunk("ne"), closing()] if streams else []
    client = Client(*chunks, recorded(said("Done")), answered(said("Done")), ended())
    assert (client.artifacts, client.shown) == ({"a": "Done"}, "Done")
    assert client.statuses == ["", ""]
    last = client.updates[-1]
    assert (last.append, last.artifact.name, dict(last.artifact.metadata)) == (True, "answer", {"aion:answers": "m-1"})


def test_adk_gets_a_message_that_becomes_the_answer_once() -> None:
    """ADK would store the empty update in place of the text."""
    client = Client(recorded(said("Done")), answered(said("Done")), ended(), ends_whole=True)
    assert (client.artifacts, client.last_chunks) == ({"a": "Done"}, ["a"])


def test_message_of_the_turn_that_changes_is_sent_again() -> None:
    client = Client(recorded(said("Draft")), answered(said("Final")), ended())
    assert (client.artifacts, client.last_chunks) == ({"a": "Final"}, ["a", "a"])


def test_text_without_record_is_closed_at_the_end() -> None:
    """Chunks of `emit_message` are streamed only."""
    client = Client(opening("Thinking"), closing(), answered(said("Done", "b")), ended())
    assert client.artifacts == {"a": "Thinking", "b": "Done"}
    assert sorted(client.last_chunks) == ["a", "b"]


@pytest.mark.parametrize("state", [TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED])
def test_text_that_breaks_off_is_emptied(state: TaskState) -> None:
    for ending in ([closing(CUT)], []):
        client = Client(opening("Half of"), *ending, ended(state, said("Sorry", "b")))
        assert (client.artifacts, client.last_chunks, client.statuses) == ({"a": ""}, ["a"], ["Sorry"])
        assert dict(client.updates[-1].artifact.metadata) == {"aion:message": True}


@pytest.mark.parametrize("repeats", [True, False])
def test_text_of_lost_process_is_replaced(repeats: bool) -> None:
    """Take the turn over: the next attempt streams the same message, or another one."""
    message_id = "a" if repeats else "b"
    client = Client(
        opening("Hello, w"),
        opening("Hello, ", message_id),
        chunk("world"),
        closing(),
        answered(said("Hello, world", message_id)),
        ended(),
    )
    assert client.artifacts == {"a": "Hello, world"} if repeats else {"a": "", "b": "Hello, world"}
    assert client.last_chunks == (["a"] if repeats else ["a", "b"])


def test_resumed_text_is_sent_whole_at_its_end() -> None:
    client = Client(
        IN_A, chunk("lo"), chunk(", world"), closing(), answered(said("Hello, world")), ended(), resumes=True
    )
    assert [(update.append, update.artifact.artifact_id) for update in client.updates] == [
        (True, "a"),
        (True, "a"),
        (False, "a"),
    ]
    assert client.artifacts == {"a": "Hello, world"}


def test_text_resumed_at_its_end_is_no_stream_delta() -> None:
    client = Client(IN_A, closing(), answered(said("Hello")), ended(), resumes=True)
    assert (client.artifacts, client.last_chunks) == ({"a": "Hello"}, ["a"])


def test_text_of_lost_process_is_emptied_in_resumed_stream() -> None:
    """The client resumes after the death of the process. The next attempt streams another message."""
    for events in ([opening("Hello", "b"), closing(), answered(said("Hello", "b")), ended()], [ended()]):
        client = Client(IN_A, *events, resumes=True)
        assert client.artifacts.pop("a") == ""
        assert client.artifacts == ({"b": "Hello"} if len(events) > 1 else {})
        assert client.last_chunks[0] == "a"


def test_text_that_a_reader_follows_is_not_resumed_twice() -> None:
    """A stream that goes on from the log, after its turn was suspended here, is told of its own text."""
    client = Client(opening("Hel"), IN_A, chunk("lo"), closing(), answered(said("Hello")), ended())
    assert (client.artifacts, client.shown, client.last_chunks) == ({"a": "Hello"}, "Hello", ["a"])


def test_text_that_comes_with_its_end_is_shown() -> None:
    """A client that subscribes after the last chunk of a text receives the text with the closing chunk."""
    whole = Delta("Thinking", append=False, last=True, reason=COMPLETE, speaker={"messageId": "a"})
    client = Client(whole, ended())
    assert (client.artifacts, client.shown, client.last_chunks) == ({"a": "Thinking"}, "Thinking", ["a"])


def test_text_with_gap_is_sent_whole_at_its_end() -> None:
    client = Client(opening("Hel"), closing(), answered(said("Hello, world")), ended())
    assert client.artifacts == {"a": "Hello, world"}


def test_last_update_has_the_whole_text_for_adk() -> None:
    words = [opening("Let me "), chunk("see."), closing(), recorded(said("Let me see."))]
    thought = [opening("Hm.", "c"), closing()]
    client = Client(
        *words,
        *thought,
        opening("It "),
        chunk("rains."),
        closing(),
        answered(said("It rains.")),
        ended(),
        ends_whole=True,
    )
    last = [each for each in client.updates if each.last_chunk]
    assert ["".join(part.text for part in each.artifact.parts) for each in last] == ["Let me see.", "Hm.", "It rains."]
    assert not any(each.append for each in last)


def test_question_and_failure_stay_in_the_status() -> None:
    for state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED):
        client = Client(ended(state, said("Which day?")))
        assert (client.artifacts, client.statuses) == ({}, ["Which day?"])


def test_authors_artifacts_and_deltas_pass_unchanged() -> None:
    """An executor may stream text under the delta's own id, with no message behind it."""
    file = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="f", parts=[Part(text="x")]), last_chunk=True)
    client = Client(
        Delta("Hel", append=False), file, Delta("lo", append=True), closing(), answered(said("Hello")), ended()
    )
    assert client.artifacts == {"aion:stream-delta": "Hello", "f": "x", "a": "Hello"}


def test_messages_metadata_reach_the_client() -> None:
    event = recorded(said("Done", metadata={"mood": "good"}, extensions=["urn:x"]))
    event.metadata.update({"step": 2})
    client = Client(event)
    artifact = client.updates[0].artifact
    assert dict(artifact.metadata) == {"mood": "good", "aion:message": True}
    assert list(artifact.extensions) == ["urn:x"]


def test_status_keeps_its_metadata_without_the_message() -> None:
    event = recorded(said("Done"))
    event.metadata.update({"step": 2})
    items = ArtifactForm().of([StreamItem("1", TASK), StreamItem("2", event)])
    assert [item.id for item in items] == ["1", "", "2"]
    status = items[-1].payload
    assert isinstance(status, TaskStatusUpdateEvent)
    assert (dict(status.metadata), status.status.HasField("message")) == ({"step": 2}, False)
    assert event.status.HasField("message")
