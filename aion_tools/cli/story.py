"""Story of a task in sentences, derived from its event log and from the log lines about it. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from aion_core.engine.records import Numbered
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.engine.task.timestamps import time_of
from aion_core.log import one_line
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine

_AT_END = datetime.max.replace(tzinfo=UTC)

_AWS_ERROR = re.compile(r"\b([A-Z][A-Za-z]+): ([A-Z][A-Za-z0-9.]+)\.?$")
"""Operation and error code of AWS at the end of a message, as in `PutItem: ThrottlingException`."""

WAIT_SECONDS = 1.0
"""Shortest wait, in seconds between a message and its turn, that the story states."""

LONGEST_QUOTE = 120
"""Maximum number of characters quoted from a message."""

_FUNCTIONS = {
    "api": "The API function",
    "task": "The task function",
    "push": "The push function",
    "sweep": "The sweep function",
    "dev": "A worker of `aion dev`",
}

_STATES = {
    TaskState.TASK_STATE_COMPLETED: "The agent completed the task.",
    TaskState.TASK_STATE_FAILED: "The task failed.",
    TaskState.TASK_STATE_CANCELED: "The task was canceled.",
    TaskState.TASK_STATE_REJECTED: "The agent rejected the task.",
    TaskState.TASK_STATE_INPUT_REQUIRED: "The agent interrupted the task: it needs input of its client.",
    TaskState.TASK_STATE_AUTH_REQUIRED: "The agent interrupted the task: it needs credentials of its client.",
}


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One event of a task's story."""

    at: datetime | None
    """Time of the event; None if it is unknown."""
    kind: str
    """`message`, `status`, `artifact`, `turn`, `takeover`, `handoff`, `push`, `invocation`, `warning` or `error`."""
    text: str
    details: dict[str, Any] = field(default_factory=dict)
    """Numbers and names of the sentence, in a form for programs."""

    def document(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"at": self.at.isoformat() if self.at else None, "kind": self.kind, "text": self.text, **self.details}


def story_of(
    events: Iterable[Numbered], lines: Iterable["LogLine"], *, caller: str, agent: str, content: bool
) -> list[StoryEvent]:
    """Return the task's story, oldest event first. `caller` describes the sender of the messages.

    With `content`, the sentences include the texts of people and agents.
    """
    recorded = list(_recorded(list(events), caller, agent, content=content))
    logged = [found for line in lines for found in _logged(line)]
    # Sort by time. An event precedes a log line of the same time (stable sort). Events without a time come last.
    story = sorted([*recorded, *logged], key=lambda each: each.at or _AT_END)
    return _with_waits(story)


# ── Event log ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _recorded(events: list[Numbered], caller: str, agent: str, *, content: bool) -> Iterator[StoryEvent]:
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


# ── Log lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _logged(line: "LogLine") -> Iterator[StoryEvent]:
    """Yield the story event of a log line. Log lines about normal steps yield nothing."""
    fields, at = line.fields, datetime.fromtimestamp(line.at / 1000, UTC)
    if line.killed_request:
        record = fields["record"]
        reason = f" ({record['errorType']})" if record.get("errorType") else ""
        text = f"Lambda ended an invocation of the {line.function} function: {record['status']}{reason}."
        yield StoryEvent(at, "invocation", text, {"function": line.function, "request": line.killed_request})
        return
    message = str(fields.get("message", ""))
    if message == "A turn begins.":
        yield _begun(at, line.function, fields)
    elif message == "A turn has ended.":
        number = fields.get("chunks", 0)
        chunks = f" and {number} streamed {'chunk' if number == 1 else 'chunks'}" if number else ""
        state, took = fields.get("state", "unknown"), _duration(fields.get("duration_ms", 0))
        text = f"The turn ended as {state} after {took}{chunks}."
        yield StoryEvent(at, "turn", text)
    elif "config_id" in fields:
        yield _pushed(at, message, fields)
    elif message == "The turn was canceled, or another worker took it over.":
        text = f"{_function(line.function)} lost the turn to another worker or to a cancellation, and stopped it."
        yield StoryEvent(at, "takeover", text)
    elif fields.get("level") in ("WARNING", "ERROR", "CRITICAL"):
        yield _failure(at, line.function, message, fields)


def _begun(at: datetime, function: str, fields: dict[str, Any]) -> StoryEvent:
    names = ("turn_id", "tries", "handoffs", "fence", "holder")
    details = {name: fields[name] for name in names if name in fields}
    tries, handoffs, who = fields.get("tries", 1), fields.get("handoffs", 0), _function(function)
    if tries > 1:
        text = f"{who} took over the turn (try {tries}), because the worker before had not ended it."
        return StoryEvent(at, "takeover", text, details)
    if handoffs:
        text = f"{who} resumed the turn after handoff {handoffs}, because the invocation before had reached its end."
        return StoryEvent(at, "handoff", text, details)
    return StoryEvent(at, "turn", f"{who} began the turn.", details)


def _pushed(at: datetime, message: str, fields: dict[str, Any]) -> StoryEvent:
    config, number = one_line(str(fields["config_id"])), fields.get("generation")
    details = {"config": config, **({"event": number} if number else {})}
    event, (kind, _, reason) = f"event {number}" if number else "an event", message.partition(": ")
    match kind:
        case "A notification was delivered.":
            text = f"The webhook {config} accepted {event}."
        case "A notification failed":
            text = f"The webhook {config} did not accept {event}: {reason}."
        case "A notification is given up":
            text = f"The delivery of {event} to the webhook {config} was given up: {reason}."
        case "A webhook is gone":
            text = f"The webhook {config} answered with 410 (Gone) and is disabled."
        case _:
            text = f"Webhook {config}: {message}"
    return StoryEvent(at, "push", text, details)


def _raised(fields: dict[str, Any]) -> str:
    """Return the line of a traceback that names the raised exception, or "" without a traceback."""
    lines = str(fields.get("exception") or "").strip().splitlines()
    name = re.escape(str(fields.get("exception_name") or ""))
    # Search backwards for the exception's name. The last lines may be notes, such as LangGraph's note with the node's
    # name.
    named = (line for line in reversed(lines) if name and re.match(rf"([\w.]+\.)?{name}(:|$)", line))
    return next(named, lines[-1] if lines else "")


def _failure(at: datetime, function: str, message: str, fields: dict[str, Any]) -> StoryEvent:
    """Return the story event of a logged warning or error, with its exception and AWS's error code."""
    raised = _raised(fields)
    cause = f" {one_line(raised)}" if raised else ""
    details: dict[str, Any] = {"function": function}
    # Look for AWS's error code at the end of the exception's text or, without an exception, of the log message.
    if found := _AWS_ERROR.search(cause or message):
        details |= {"operation": found[1], "code": found[2]}
        cause += f" (AWS's error code for {found[1]}: {found[2]})"
    if fields.get("exception_name"):
        details["exception"] = fields["exception_name"]
    kind = "warning" if fields.get("level") == "WARNING" else "error"
    return StoryEvent(at, kind, f"{_function(function)} logged: {message}{cause}", details)


def _function(name: str) -> str:
    return _FUNCTIONS.get(name, f"The function {name}")


# ── Waits ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_waits(story: Sequence[StoryEvent]) -> list[StoryEvent]:
    """Add to the first turn after each message how long the message has waited, if it was at least WAIT_SECONDS."""
    told: list[StoryEvent] = []
    sent: datetime | None = None
    for each in story:
        if each.kind == "message" and "messageId" in each.details:
            sent = each.at
        elif each.kind == "turn" and "tries" in each.details and sent is not None and each.at is not None:
            waited = (each.at - sent).total_seconds()
            sent = None
            if waited >= WAIT_SECONDS:
                text = f"{each.text[:-1]}, {_duration(waited * 1000)} after its message."
                told.append(StoryEvent(each.at, each.kind, text, {**each.details, "waitSeconds": round(waited, 3)}))
                continue
        told.append(each)
    return told


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 120_000 else f"{milliseconds / 60_000:.0f} min"
