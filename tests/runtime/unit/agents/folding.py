"""Streams of A2A events, folded into a task and texts as a client of the a2a-sdk folds them."""

import json
from collections import Counter
from dataclasses import dataclass, field

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Artifact, Message, StreamResponse, Task, TaskStatus
from google.protobuf.json_format import ParseDict

STREAM_DELTA = "aion:stream-delta"


@dataclass
class Folded:
    """Content that a client has after folding a stream."""

    texts: list[str] = field(default_factory=list)
    """Finished texts of the stream delta, in order."""
    messages: dict[str, Message] = field(default_factory=dict)
    """Messages of statuses by id, in order."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Number of repetitions of each message id, without a repetition in the last event."""
    task: Task = field(default_factory=Task)
    """Task with the artifacts and the last status."""
    message: Message | None = None
    """Message that the stream has in place of a task."""

    @property
    def artifacts(self) -> list[Artifact]:
        """Artifacts of the task, without the stream delta."""
        return [artifact for artifact in self.task.artifacts if artifact.artifact_id != STREAM_DELTA]


def events_of(body: str) -> list[StreamResponse]:
    """Return the events of an SSE response of either version, in their v1 form."""
    results = [json.loads(line[6:])["result"] for line in body.splitlines() if line.startswith("data: ")]
    read = v03.SendStreamingMessageSuccessResponse
    return [
        conversions.to_core_stream_response(read.model_validate({"id": 7, "jsonrpc": "2.0", "result": result}))
        if "kind" in result
        else ParseDict(result, StreamResponse())
        for result in results
    ]


def fold(body: str) -> Folded:
    """Fold the events of an SSE response. Artifacts are folded by the SDK."""
    folded, events = Folded(), events_of(body)
    for event in events:
        status: TaskStatus | None = None
        match event.WhichOneof("payload"):
            case "message":
                folded.message = event.message
            case "task":
                folded.task.CopyFrom(event.task)
            case "status_update":
                status = event.status_update.status
                folded.task.status.CopyFrom(status)
            case "artifact_update":
                update = event.artifact_update
                append_artifact_to_task(folded.task, update)
                if update.artifact.artifact_id == STREAM_DELTA and update.last_chunk:
                    folded.texts.append(text_of(_artifact(folded.task, STREAM_DELTA)))
        if status is not None and status.HasField("message"):
            told = status.message.message_id in folded.messages and event is not events[-1]
            folded.repeated[status.message.message_id] += told
            folded.messages[status.message.message_id] = status.message
    return folded


def text_of(content: Message | Artifact) -> str:
    """Return the text parts of a message or an artifact."""
    return "".join(part.text for part in content.parts)


def _artifact(task: Task, artifact_id: str) -> Artifact:
    return next(artifact for artifact in task.artifacts if artifact.artifact_id == artifact_id)
