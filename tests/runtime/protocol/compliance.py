"""Content and order of an A2A event stream (A2A 3.1.2, 11.7), in either version.

`faults` describes every fault of a stream, one sentence each; a compliant stream has no fault.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from a2a.compat.v0_3 import types as v03
from a2a.types import StreamResponse
from google.protobuf.json_format import ParseDict, ParseError
from pydantic import BaseModel, ValidationError

Event = dict[str, Any]

MODELS: dict[str, type[BaseModel]] = {
    "task": v03.Task,
    "message": v03.Message,
    "status-update": v03.TaskStatusUpdateEvent,
    "artifact-update": v03.TaskArtifactUpdateEvent,
}
MEMBERS = {"task": "task", "message": "message", "statusUpdate": "status-update", "artifactUpdate": "artifact-update"}

ENDED = {"completed", "failed", "canceled", "rejected"}
RESTS = {*ENDED, "input-required", "auth-required"}
STREAM_DELTA = "aion:stream-delta"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def faults(events: Sequence[Event], version: str, *, begins: bool = True) -> list[str]:
    """Return the faults of a new task's stream or, without `begins`, of a stream that continues a task."""
    found = list(_of_shape(events, version))
    if found:
        return found  # the order of unreadable events cannot be checked
    told = [_read(event, version) for event in events]
    if [kind for kind, _ in told] == ["message"]:
        return list(_of_message(told[0][1], version, "the message"))
    return [*_of_order(told, version, begins=begins), *_of_names(told), *_of_chunks(told), *_of_contents(told, version)]


def _of_shape(events: Sequence[Event], version: str) -> Iterator[str]:
    for at, event in enumerate(events):
        try:
            if version == "1.0":
                if len(event) != 1:
                    yield f"event {at} has not exactly one of {sorted(MEMBERS)}: {sorted(event)}"
                ParseDict(event, StreamResponse())
            else:
                model = MODELS.get(event.get("kind", ""))
                if model is None:
                    yield f"event {at} is of the kind {event.get('kind')!r}, which is none"
                else:
                    model.model_validate(event)
        except (ParseError, ValidationError) as error:
            yield f"event {at} is not as the schema has it: {error}"


def _read(event: Event, version: str) -> tuple[str, Event]:
    """Return an event's kind and content."""
    if version == "1.0":
        ((member, said),) = event.items()
        return MEMBERS[member], said
    return event["kind"], event


def _state(said: Event) -> str:
    state: str = said["status"]["state"]
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def _of_order(told: Sequence[tuple[str, Event]], version: str, *, begins: bool) -> Iterator[str]:
    kinds = [kind for kind, _ in told]
    if not told or kinds[0] != "task":
        yield "the first event is no task"
        return
    if kinds.count("task") > 1:
        yield "a task comes more than once"
    if "message" in kinds:
        yield "a message comes in the stream of a task"
    if begins and _state(told[0][1]) != "submitted":
        yield f"the task is new, and {_state(told[0][1])}"
    if begins and (len(told) < 2 or kinds[1] != "status-update" or _state(told[1][1]) != "working"):
        yield "the second event does not say that the task works"
    if kinds[-1] != "status-update" or _state(told[-1][1]) not in RESTS:
        yield "the last event is no status at which the task rests"
    for at, (kind, said) in enumerate(told):
        is_last = at == len(told) - 1
        if kind == "status-update" and _state(said) in RESTS and not is_last:
            yield f"event {at} says {_state(said)}, and more follows"
        if kind == "status-update" and version == "0.3" and said.get("final") is not is_last:
            yield f"event {at} has final: {said.get('final')}"


def _of_names(told: Sequence[tuple[str, Event]]) -> Iterator[str]:
    task = told[0][1]
    names = (task.get("id"), task.get("contextId"))
    if not all(names):
        yield "the task lacks its id, or its context's"
    for at, (_, said) in enumerate(told[1:], start=1):
        if (said.get("taskId"), said.get("contextId")) != names:
            yield f"event {at} is another task's"


def _of_chunks(told: Sequence[tuple[str, Event]]) -> Iterator[str]:
    is_open: dict[str, bool] = {}
    for at, (kind, said) in enumerate(told):
        if kind != "artifact-update":
            continue
        artifact = said["artifact"].get("artifactId", "")
        if not artifact:
            yield f"event {at} has an artifact without an id"
        if said.get("append", False) and not is_open.get(artifact, False):
            yield f"event {at} appends to {artifact!r}, which is not open"
        if not said.get("append", False) and is_open.get(artifact, False):
            yield f"event {at} opens {artifact!r} anew before it was closed"
        is_open[artifact] = not said.get("lastChunk", False)
    for artifact, still in is_open.items():
        if still:
            yield f"{artifact!r} is never closed"


def _of_contents(told: Sequence[tuple[str, Event]], version: str) -> Iterator[str]:
    last = ""
    for at, (kind, said) in enumerate(told):
        where = f"event {at}"
        if kind in ("task", "status-update"):
            time = said["status"].get("timestamp", "")
            if not _TIME.fullmatch(time) or not datetime.fromisoformat(time) or time < last:
                yield f"{where} has the time {time!r} after {last!r}"
            last = max(last, time)
            if "message" in said["status"]:
                yield from _of_message(said["status"]["message"], version, where)
        for artifact in [said["artifact"]] if kind == "artifact-update" else said.get("artifacts", []):
            for part in artifact.get("parts", []):
                yield from _of_part(part, version, where)
            if kind == "task" and artifact.get("artifactId") == STREAM_DELTA:
                yield "the task holds stream deltas, which are no part of it"
        ids = [message["messageId"] for message in said.get("history", [])]
        if len(ids) != len(set(ids)):
            yield f"{where} has a message twice"
        if (
            kind == "task"
            and "message" in said["status"]
            and said["status"]["message"] != said.get("history", [{}])[-1]
        ):
            yield f"{where} has a status message that is not the last of the history"
        if _internal(said):
            yield f"{where} tells an internal event"


def _of_message(message: Event, version: str, where: str) -> Iterator[str]:
    if message.get("role") not in ("ROLE_AGENT", "agent"):
        yield f"{where} has a message of {message.get('role')!r}"
    if not message.get("messageId") or not message.get("parts"):
        yield f"{where} has a message without an id, or without parts"
    for part in message.get("parts", []):
        yield from _of_part(part, version, where)


def _of_part(part: Event, version: str, where: str) -> Iterator[str]:
    if version == "1.0":
        if len({"text", "raw", "url", "data"} & part.keys()) != 1:
            yield f"{where} has a part with not one content: {sorted(part)}"
    elif part.get("kind") not in ("text", "file", "data"):
        yield f"{where} has a part of the kind {part.get('kind')!r}"


def _internal(value: Any) -> bool:
    """Return True if the value contains an event that only serves observability, and that no client should receive."""
    if isinstance(value, dict):
        return str(value.get("kind", "")).startswith("internal:") or any(map(_internal, value.values()))
    return isinstance(value, list) and any(map(_internal, value))
