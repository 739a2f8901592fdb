"""Content of a conversation on the command line: the parts that a user sends, and the answer received so far."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from a2a.types import Artifact, Part, StreamResponse

    from aion_core.agent_client.checked import Kept
    from aion_core.protocol.interrupts import OpenQuestion

MAX_FILE_BYTES = 3 * 1024 * 1024
"""Maximum size of a sent file. Base64 adds a third to the size, and a request has at most 5 MB."""


def file_part(path: Path) -> "Part":
    """Return the message part of a file. Raises click.ClickException for a file that cannot be sent."""
    from a2a.types import Part

    from aion_core.protocol.media_types import type_of
    from aion_core.protocol.text import utf8

    try:
        content = path.expanduser().read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > MAX_FILE_BYTES:
        raise click.ClickException(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MB: send its URL instead.")
    part = Part(raw=content, filename=utf8(path.name))
    part.media_type = type_of(part) or ""
    return part


def data_part(text: str) -> "Part":
    """Return the data part of a JSON text. Raises click.ClickException if the text is not JSON that A2A can carry."""
    from a2a.types import Part
    from a2a.utils.errors import A2AError
    from google.protobuf.json_format import ParseDict, ParseError

    from aion_core.protocol.strict_json import check_json, parse_json

    try:
        data = parse_json(text.encode("utf-8", "surrogatepass"), "data")
        check_json(data, "data")
        return ParseDict({"data": data}, Part())
    except (A2AError, ParseError) as error:
        raise click.ClickException(str(error)) from error


@dataclass
class Answer:
    """Agent's answer to one message, as far as it has been received."""

    task_id: str = ""
    context_id: str = ""
    state: str = ""
    """Name of the task's state, such as `input-required`. For an answer without a task, `completed`."""
    question: bool = False
    """True if the task waits for an answer to its message."""
    questions: list["OpenQuestion"] = field(default_factory=list)
    """Questions that wait for an answer; empty if they have no ids."""
    streamed: str = ""
    """Text of the current stream delta."""
    text: str = ""
    """Text of the last whole message."""
    contents: dict[str, list["Part"]] = field(default_factory=dict)
    """Files and data of each message and artifact, by its id, so that a repeated event stores its parts only once."""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Texts of artifacts by id, in the order of their arrival."""
    artifacts_before: int = 0
    """Number of artifacts that arrived before the first text of the message. They are shown above it."""

    @cached_property
    def _kept(self) -> "Kept":
        from aion_core.agent_client.checked import Kept
        from aion_core.agent_client.limits import OF_COMMANDS

        return Kept(OF_COMMANDS.kept)

    def add(self, event: "StreamResponse") -> None:
        """Add one event of the stream. Raises UnusableAnswer if there is too much to keep."""
        from aion_core.protocol.answer_artifacts import is_answer
        from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID

        if event.HasField("message"):
            self._message(event.message.message_id, event.message.parts)
            self.context_id, self.state = event.message.context_id, "completed"
        elif event.HasField("task"):
            self.task_id, self.context_id = event.task.id, event.task.context_id
            for artifact in event.task.artifacts:
                self._artifact(artifact, append=False)
            self._status(event.task.status)
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            if update.artifact.artifact_id == STREAM_DELTA_ID:
                text = "".join(part.text for part in update.artifact.parts)
                self._message_begins()
                self.streamed = self.streamed + text if update.append else text
                self._kept.put("streamed", len(text), parts=1, append=update.append)
            elif is_answer(update.artifact) and update.artifact.artifact_id not in self.artifacts:
                # With `answer: both`, the same text follows as the message of the status.
                self._message(update.artifact.artifact_id, update.artifact.parts)
            else:
                self._artifact(update.artifact, append=update.append)
        elif event.HasField("status_update"):
            self._status(event.status_update.status)

    @property
    def is_over(self) -> bool:
        """True if the turn has ended: the task is terminal, or waits for the client."""
        return self.question or self.state in ("completed", "failed", "canceled", "rejected")

    @property
    def parts(self) -> list["Part"]:
        """Files and data of all messages and artifacts."""
        found = ((_joined(parts) if each in self.artifacts else parts) for each, parts in self.contents.items())
        return [part for parts in found for part in parts]

    @property
    def shown(self) -> str:
        """Text received so far: the message or, before it arrives, its streamed text, and the texts of artifacts."""
        said = self.text or self.streamed
        # Omit an artifact with the same text as the message. A server sends it under the setting `answer: both` or
        # `artifact`.
        texts = [text.rstrip("\n") if text != said else "" for text in self.artifacts.values()]
        texts.insert(self.artifacts_before, said)
        return "\n\n".join(filter(None, texts))

    def _status(self, status: Any) -> None:
        from aion_core.engine.task.states import INTERRUPTED, state_name
        from aion_core.protocol.interrupts import questions_of

        self.state, self.question = state_name(status.state), status.state in INTERRUPTED
        self.questions = questions_of(status.message) if self.question else []
        if status.HasField("message"):
            self._message(status.message.message_id, status.message.parts)
            return
        self._kept.put("statuses", 0, parts=1, append=True)
        if self.text and self.state == "working":
            self.text = ""

    def _artifact(self, artifact: "Artifact", *, append: bool) -> None:
        text = "".join(part.text for part in artifact.parts if not part.filename)
        known = self.artifacts.get(artifact.artifact_id, "") if append else ""
        self.artifacts[artifact.artifact_id] = known + text
        self._kept.put(artifact.artifact_id, artifact.ByteSize(), parts=len(artifact.parts), append=append)
        if not append:
            self.contents[artifact.artifact_id] = []
        self.contents.setdefault(artifact.artifact_id, []).extend(_files(artifact.parts))

    def _message_begins(self) -> None:
        if not (self.text or self.streamed):
            self.artifacts_before = len(self.artifacts)

    def _message(self, message_id: str, parts: Sequence["Part"]) -> None:
        self._message_begins()
        # Each part of a question is a text of its own: a remark on the last answer, or one of several questions.
        self.text = ("\n\n" if self.question else "").join(part.text for part in parts if part.text)
        self._kept.put(message_id, sum(part.ByteSize() for part in parts), parts=len(parts))
        self.contents[message_id] = _files(parts)


def _files(parts: Iterable["Part"]) -> list["Part"]:
    """Return the files and data of parts."""
    return [part for part in parts if part.WhichOneof("content") != "text" or part.filename]


def _joined(parts: Iterable["Part"]) -> list["Part"]:
    """Return an artifact's files and data. Consecutive files of one name are joined, because they are chunks."""
    joined: list[Part] = []
    for name, group in groupby(parts, lambda part: part.filename if part.HasField("raw") else ""):
        chunks = list(group)
        if name and len(chunks) > 1:
            raw = b"".join(chunk.raw for chunk in chunks)
            joined.append(type(chunks[0])(raw=raw, filename=name, media_type=chunks[0].media_type))
        else:
            joined += chunks
    return joined


def name_interrupt(parts: Iterable["Part"], interrupt_id: str) -> None:
    """Set the interrupt that these parts answer. An empty id changes nothing."""
    from aion_core.protocol.interrupts import INTERRUPT_ID

    for part in parts if interrupt_id else ():
        part.metadata.update({INTERRUPT_ID: interrupt_id})
