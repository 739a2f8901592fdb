"""Stream of a task with `answer: artifact`: each message of the agent is an artifact of its own (A2A 3.7).

The log and the stored chunks are the same in each form, so this module translates them for one reader:

- A streamed text becomes an artifact with the id of its message. Its chunks append to the artifact.
- The last update has `lastChunk`. It is sent when the message is recorded, when the next text begins, or when the turn
  ends. If the recorded message differs from the chunks, or the reader has missed some, this update has the whole
  message and replaces the artifact.
- A text that breaks off is replaced by an empty one: the task will never have it.
- A message that is recorded without a stream is sent as a whole artifact, and again only if it has changed. An answer
  that was a message of the turn already isn't sent twice: an empty update adds the metadata of an answer.
- Questions, failures and refusals stay in the status.

ADK's `RemoteA2aAgent` gets the whole message in the last update of each artifact, which replaces it: ADK shows the chunks,
and stores the last update as what the agent said. Many other clients would show the text twice.

Only the answer's artifact is part of the task; the others have `aion:message` in their metadata. A text delta that names no message stays a stream delta.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from aion_core.engine.records import COMPLETE, Delta
from aion_core.engine.stream.broadcast import Resumed, ResumedText, StreamItem
from aion_core.engine.task import states
from aion_core.protocol.answer_artifacts import MESSAGE, as_streamed, is_answer
from aion_core.protocol.types import Artifact, Part, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


async def in_artifact_form(
    batches: AsyncGenerator[list[StreamItem], None], *, ends_whole: bool
) -> AsyncGenerator[list[StreamItem], None]:
    """Yield the batches of a stream with the agent's messages as artifacts. See `ArtifactForm` for `ends_whole`."""
    form = ArtifactForm(ends_whole=ends_whole)
    async with aclosing(batches):
        async for batch in batches:
            translated = form.of(batch)
            if translated or not batch:
                yield translated


class ArtifactForm:
    """State of one reader: the artifact that is being streamed, and the artifacts that the reader has whole."""

    def __init__(self, *, ends_whole: bool = False) -> None:
        """With `ends_whole`, the last update of each artifact has the whole message."""
        self._ends_whole = ends_whole
        self._task: Task | Resumed | None = None
        self._open = ""
        """Id of the artifact that is being streamed; "" without one."""
        self._chunks: list[str] | None = None
        """Chunks of the open artifact. None without one, or if the reader has received its beginning elsewhere."""
        self._is_complete = False
        """True after the last chunk of the open artifact. Its last update waits for the record of the message."""
        self._whole: dict[str, Sequence[Part]] = {}
        """Parts of each artifact that the reader has whole, by its id."""

    def of(self, batch: list[StreamItem]) -> list[StreamItem]:
        """Return the items as the reader should receive them."""
        translated: list[StreamItem] = []
        for item in batch:
            match item.payload:
                case Delta(append=True, last=False, speaker=None) as delta if self._chunks is not None:
                    # Most items are such chunks, so they pass without a generator.
                    self._chunks.append(delta.text)
                    translated.append(StreamItem(item.id, replace(delta, artifact_id=self._open)))
                case Delta() as delta:
                    translated += self._of_delta(item, delta)
                case ResumedText(speaker=speaker):
                    # The reader has begun this artifact. If its text doesn't go on, the artifact must be emptied.
                    if not self._open:
                        self._open = speaker.get("messageId", "")
                case TaskStatusUpdateEvent() as event:
                    translated += self._of_status(item, event)
                case TaskArtifactUpdateEvent(artifact=artifact) if is_answer(artifact):
                    translated += self._record(artifact, item.id)
                case payload:
                    if isinstance(payload, Task | Resumed):
                        self._task = payload
                    translated.append(item)
        return translated

    def _of_delta(self, item: StreamItem, delta: Delta) -> Iterator[StreamItem]:
        metadata: dict[str, Any] = {}
        if not delta.append:
            metadata = {MESSAGE: True, **(delta.speaker or {})}
            artifact_id = metadata.pop("messageId", "")
            if artifact_id != self._open:
                yield from self._end_text()
            self._open, self._is_complete = artifact_id, False
            self._chunks = [] if artifact_id else None
        if not self._open:
            yield item
            return
        if delta.text or not delta.last:
            if self._chunks is not None:
                self._chunks.append(delta.text)
            yield StreamItem(item.id, replace(delta, last=False, reason="", artifact_id=self._open, speaker=metadata))
        if delta.last:
            self._is_complete = delta.reason == COMPLETE
            if not self._is_complete:
                yield from self._end_text()

    def _of_status(self, item: StreamItem, event: TaskStatusUpdateEvent) -> Iterator[StreamItem]:
        if event.status.state in states.TERMINAL_OR_INTERRUPTED:
            yield from self._end_text()
            yield item
        elif event.status.HasField("message"):
            yield from self._record(as_streamed(event.status.message))
            without_message = TaskStatusUpdateEvent()
            without_message.CopyFrom(event)
            without_message.status.ClearField("message")
            yield StreamItem(item.id, without_message)
        else:
            yield item

    def _record(self, artifact: Artifact, id_: str = "") -> Iterator[StreamItem]:
        """Yield what the reader lacks of a recorded message. `id_` is the SSE id of its event, "" for none."""
        artifact_id, parts = artifact.artifact_id, list(artifact.parts)
        is_open = artifact_id == self._open
        known = self._text() if is_open else self._whole.get(artifact_id)
        if is_open:
            self._open, self._chunks = "", None
        self._whole[artifact_id] = parts
        if known is None or parts[: len(known)] != known or (is_open and self._ends_whole):
            yield self._update(artifact, append=False, id_=id_)
        elif is_open or len(parts) > len(known) or (is_answer(artifact) and not self._ends_whole):
            # Send an answer that the reader has whole once more without its text: until now it was marked as a message
            # of the turn, which the task would not have.
            rest = Artifact()
            rest.CopyFrom(artifact)
            del rest.parts[:]
            rest.parts.extend(parts[len(known) :] or [Part(text="")])
            yield self._update(rest, append=True, id_=id_)

    def _end_text(self) -> Iterator[StreamItem]:
        """Yield the last update of the open artifact, whose message has not been recorded."""
        if not self._open:
            return
        artifact, text = Artifact(artifact_id=self._open), self._text() if self._is_complete else None
        if text is not None:
            self._whole[self._open] = text
        is_repeated = text is not None and self._ends_whole
        artifact.parts.extend(text if text is not None and is_repeated else [Part(text="")])
        artifact.metadata.update({MESSAGE: True})
        yield self._update(artifact, append=self._is_complete and not is_repeated)
        self._open, self._chunks = "", None

    def _text(self) -> Sequence[Part] | None:
        return None if self._chunks is None else [Part(text="".join(self._chunks))]

    def _update(self, artifact: Artifact, *, append: bool, id_: str = "") -> StreamItem:
        assert self._task is not None  # noqa: S101  # a stream begins with its task, or resumes it
        return StreamItem(
            id_,
            TaskArtifactUpdateEvent(
                task_id=self._task.id,
                context_id=self._task.context_id,
                artifact=artifact,
                append=append,
                last_chunk=True,
            ),
        )
