"""Story of a task by its event log: messages, states and artifacts. Pure."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

from aion_core.engine.records import Numbered
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.engine.task.timestamps import time_of
from aion_core.log import one_line
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from aion_tools.cli.story.event import StoryEvent

LONGEST_QUOTE = 120
"""Maximum number of characters quoted from a message."""
_STATES = {
    TaskState.TASK_STATE_COMPLETED: "The agent completed the task.",
    TaskState.TASK_STATE_FAILED: "The task failed.",
    TaskState.TASK_STATE_CANCELED: "The task was canceled.",
    TaskState.TASK_STATE_REJECTED: "The agent rejected the task.",
    TaskState.TASK_STATE_INPUT_REQUIRED: "The agent asked the client for input.",
    TaskState.TASK_STATE_AUTH_REQUIRED: "The agent asked the client for credentials.",
}


def told_by_log(events: list[Numbered], caller: str, agent: str, *, content: bool) -> Iterator[StoryEvent]:
    """Yield the story of the event log. An artifact event has no time of its own and gets the next event's time."""
    times, after = dict[int, datetime | None](), None
    for each in reversed(events):
        times[each.generation] = after = time_of(each.event) or after
    was_interrupted = False
    for artifact, group in groupby(events, _artifact_id):
        some = list(group)
        if artifact is not None:
            yield _artifact(times[some[-1].generation], artifact, some)
            continue
        for each in some:
            event, at = each.event, times[each.generation]
            number = {"event": each.generation}
            if isinstance(event, Task):
                yield from _first(at, each, event, caller, agent, content=content)
            elif isinstance(event, TaskStatusUpdateEvent):
                if each.message is not None:
                    answer = "answered" if was_interrupted else "sent another message for the task"
                    text = f"{caller} {answer}{_quoted(each.message, content=content)}."
                    yield StoryEvent(at, "message", text, {**number, "messageId": each.message.message_id})
                yield from _status(at, each.generation, event, content=content)
                was_interrupted = event.status.state in INTERRUPTED
            elif isinstance(event, Message):
                yield StoryEvent(at, "message", f"The agent sent a message{_quoted(event, content=content)}.", number)


def _first(
    at: datetime | None, entry: Numbered, task: Task, caller: str, agent: str, *, content: bool
) -> Iterator[StoryEvent]:
    if entry.generation > 1:
        text = f"Events 1 to {entry.generation} have expired; a snapshot has their result: {state_name(task.status.state)}."
        yield StoryEvent(at, "status", text, {"event": entry.generation})
        return
    message = entry.message or next(iter(task.history), None)
    quoted = _quoted(message, content=content) if message is not None else ""
    message_id = message.message_id if message is not None else ""
    text = f"{caller} sent the message {message_id or 'without an id'} to the agent {agent}{quoted}."
    yield StoryEvent(at, "message", text, {"event": entry.generation, "messageId": message_id})


def _status(at: datetime | None, number: int, event: TaskStatusUpdateEvent, *, content: bool) -> Iterator[StoryEvent]:
    state, details = event.status.state, {"event": number, "state": state_name(event.status.state)}
    message = event.status.message if event.status.HasField("message") else None
    quoted = _quoted(message, content=content) if message is not None else ""
    if text := _STATES.get(state):
        yield StoryEvent(at, "status", f"{text[:-1]}{quoted}.", details)
    elif message is not None:
        yield StoryEvent(at, "message", f"The agent sent a message{quoted}.", details)


def _artifact(at: datetime | None, artifact_id: str, events: list[Numbered]) -> StoryEvent:
    first, last = events[0].generation, events[-1].generation
    numbers = f"event {first}" if first == last else f"events {first} to {last}"
    return StoryEvent(
        at, "artifact", f"The agent wrote the artifact {one_line(artifact_id)} ({numbers}).", {"event": first}
    )


def _artifact_id(entry: Numbered) -> str | None:
    return entry.event.artifact.artifact_id if isinstance(entry.event, TaskArtifactUpdateEvent) else None


def _quoted(message: Message, *, content: bool) -> str:
    # Remove the message's full stop, because the sentence around it ends with a full stop.
    text = " ".join(" ".join(part.text for part in message.parts).split()).removesuffix(".")
    if len(text) > LONGEST_QUOTE:
        text = f"{text[: LONGEST_QUOTE - 1]}…"
    return f": “{one_line(text)}”" if content and text else ""
