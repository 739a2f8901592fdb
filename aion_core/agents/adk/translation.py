"""Translation of an ADK turn's events to emissions."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence

from google.adk.events import Event
from google.adk.workflow import BaseNode
from google.genai import types as genai
from msgspec import Struct

from aion_core.agents.addressing import parts_without_target
from aion_core.agents.adk.agent_streams import AgentStreams, TextStream
from aion_core.agents.adk.callbacks import AgentEnded, AgentInvoked
from aion_core.agents.adk.event_keys import EventKeys
from aion_core.agents.adk.outbox import merged_outbox, outbox_of_event
from aion_core.agents.adk.parts import (
    a2a_parts,
    file_parts,
    model_metadata,
    part_of,
    parts_of_event,
    received_files,
    tool_results,
    visible_text,
)
from aion_core.agents.adk.remote_agents.marks import mark_of
from aion_core.agents.adk.waits.tool_runs import FileReceived
from aion_core.agents.adk.workflow_outputs import is_output_of_root
from aion_core.agents.emission_ids import REPLY, deterministic_id, final_key, with_artifact_id
from aion_core.agents.emitted_messages import EmittedMessages
from aion_core.agents.final_answer import TurnOutput, final_emissions
from aion_core.agents.helper_calls import DurableReply, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.agents.reactions import reaction_artifact
from aion_core.agents.restarts import NO_ANSWER_AFTER_RESTART
from aion_core.agents.speakers import INVOKED, speaker_of
from aion_core.agents.streams import StreamSequencer
from aion_core.agents.waiting import together
from aion_core.authoring.remote import is_file
from aion_core.authoring.types import A2AOutbox
from aion_core.engine.agent import AgentArtifact, AgentMetadata, AgentTyping, Chunk, Emission, Reply, TurnRequest
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Artifact, Message, Part, Role, TaskStatusUpdateEvent

logger = logging.getLogger(__name__)

VERSION = "version"
"""Key in an artifact's metadata for its version in ADK."""

NO_ANSWER = (
    "The turn has ended without an answer: no event of the agent has content, and no last node of a Workflow has an "
    "output. Yield an Event with content, set state_delta['a2a_outbox'], or call thread.reply()."
)
CUT_ANSWER = "The model of %r stopped before the end of its answer: %s. The client receives the incomplete answer."
LoadArtifact = Callable[[str, int], Awaitable[genai.Part | None]]
"""Function that reads a saved artifact by file name and version."""


class CompleteMessage(Struct, frozen=True):
    """Complete message of an agent. It is recorded after its stream."""

    stream: str
    """Message id of its chunks; empty if it was not streamed."""
    message: Message | None
    """The message; None if its stream ends without a message, for example if an outbox replaces it."""
    key: str
    """Idempotency key of its ADK event. See `EventKeys`."""
    continues: bool = False
    """True if its agent continues after it, for example with tool calls. It is then not the answer."""


class AdkTranslator:
    """Translator for one turn: converts ADK events, and calls of helpers such as `thread.reply`, to emissions."""

    def __init__(self, request: TurnRequest, load: LoadArtifact, *, root: BaseNode, restarted: bool = False) -> None:
        """Start without output. `root` is the root agent.

        If `restarted`, the turn has run again from its message: messages recorded by an earlier attempt are not emitted
        again, and the turn must have output of its own.
        """
        self._request, self._load, self._root, self._restarted = request, load, root, restarted
        self._reactions = {artifact.artifact_id for artifact in request.task.artifacts}
        self._messages = EmittedMessages(request)
        self._to_skip = _recorded_contents(request) if restarted else Counter[bytes]()
        self._streams = StreamSequencer[CompleteMessage]()
        self._event_keys = EventKeys()
        self._texts = AgentStreams()
        self._last: tuple[Message, str] | None = None
        """Last complete message with its event's key. It is the answer unless another message follows."""
        self._output: Message | None = None
        """Last output of the root. It is the answer unless a message follows."""
        self._failure: Event | None = None
        self._outboxes: list[A2AOutbox] = []
        self._counts: Counter[str] = Counter()
        self._has_output = False
        """True if the turn has emitted an artifact or a reaction."""
        self._has_messages = False
        """True if the turn has emitted an intermediate message, or one that an earlier attempt has recorded."""

    async def translate(self, event: Event) -> AsyncGenerator[Emission, None]:
        """Yield the emissions of an ADK event."""
        key = self._event_keys.of(event)
        emissions = self._event(event, key)
        for emission in emissions if event.partial else together(emissions):
            yield emission
        for name, version in event.actions.artifact_delta.items() if not event.partial else ():
            if (artifact := await self._artifact(name, version, f"{key}/{name}")) is not None:
                self._has_output = True
                yield artifact

    def helper_calls(self, calls: Sequence[object]) -> Iterator[Emission]:
        """Yield the emissions of helper calls in the author's code that wait at the same time, and of `AgentInvoked` etc."""
        return together(emission for call in calls for emission in self._helper_call(call))

    def before_pause(self) -> Iterator[Emission]:
        """Yield the buffered chunks of all streams, because the turn is suspended and another process resumes it."""
        yield from self._flow(self._streams.close_all())

    def before_failure(self) -> Iterator[Emission]:
        """Yield the complete messages before the turn fails. A text that was still streaming is not a message."""
        yield from self._become_messages(self._texts.whole())
        yield from self.before_pause()
        yield from self._emit_last()

    def before_question(self) -> Iterator[Emission]:
        """Yield the turn's remaining messages before its question, because the next turn does not emit them."""
        yield from self._become_messages(self._texts.ended())
        yield from self.before_failure()
        if (unfinished := self._unfinished()) is not None:
            yield from self._emit(unfinished, final_key(self._request, "question"))

    def end(self) -> Iterator[Emission]:
        """Yield the remaining emissions after the last event, ending with the Reply.

        Raises AgentFailed if a model call failed and the turn has no answer, or if the turn has started over and has no
        output.
        """
        yield from self._become_messages(self._texts.ended())
        yield from self._flow(self._streams.close_all())
        if (unfinished := self._unfinished()) is not None:
            yield from self._emit_last()  # emit the last message as intermediate, because the unfinished text is newer
        last_parts = list(self._last[0].parts) if self._last is not None else None
        if self._output is not None and list(self._output.parts) != last_parts:
            yield from self._emit_last()
            self._last = self._output, ""
        if self._messages.reply is not None:
            yield from self._emit_last()  # as an intermediate message, because the agent's explicit reply is the answer
        outbox = merged_outbox(self._outboxes)
        if self._failure is not None and unfinished is None and outbox is None and self._messages.reply is None:
            yield from self._emit_last()
            raise _failed(self._failure)
        left = TurnOutput(
            buffered=self._messages.reply,
            outbox=outbox,
            # Prefer the message that an earlier attempt has recorded for this event, so that the answer keeps its id.
            returned=(self._messages.get(self._last[1]) or self._last[0]) if self._last is not None else None,
            streamed=unfinished,
            # The messages of an earlier attempt do not answer a turn that has started over.
            emitted=self._messages.intermediate if self._has_messages or not self._restarted else None,
        )
        for emission in final_emissions(self._request, left):
            self._has_output = self._has_output or isinstance(emission, AgentArtifact)
            if isinstance(emission, Reply) and emission.message is None and not self._has_output:
                if self._restarted:
                    raise AgentFailed(NO_ANSWER_AFTER_RESTART)
                logger.warning(NO_ANSWER, extra={"task_id": self._request.task.id})
            yield emission

    def _event(self, event: Event, key: str) -> Iterator[Emission]:
        if event.author == "user":
            return
        parts = parts_of_event(event)
        agent = (event.branch or "", event.author)
        text = visible_text(parts)
        if parts:
            yield from self._become_messages(self._texts.before(event.author))
        if event.partial:
            if text:
                message_id = self._texts.add(agent, text, lambda: deterministic_id(self._request.task.id, key))
                speaker = speaker_of(message_id, agent=event.author, branch=event.branch or "")
                yield from self._flow(self._streams.add(Chunk(text, message_id, speaker=speaker)))
            return
        has_failed = bool(event.error_code or event.error_message)
        said = self._texts.said(agent, text) if text else None
        stream = self._texts.close(agent) if said is None and (parts or has_failed) else ""
        if (outbox := outbox_of_event(event)) is not None:
            # End the event's stream without a message, because an outbox replaces the content of its event.
            yield from self._complete(CompleteMessage(stream, None, key))
            yield from self._emit_last()
            self._outboxes.append(outbox)
            self._failure = None
            return
        message: Message | None = None
        if (found := mark_of(event)) is not None:
            yield from self._remote_files(found.call, key, received_files(parts))
            # Part by part, because together the files may be large.
            visible = [made for part in parts for made in a2a_parts([part]) if not is_file(made)]
        else:
            visible = a2a_parts(parts)
        visible = visible or tool_results(event)
        if visible and not (has_failed and _is_blank(visible)):
            self._failure = self._output = None
            if event.error_code:
                logger.warning(CUT_ANSWER, event.author, event.error_code, extra={"task_id": self._request.task.id})
            message = Message(
                role=Role.ROLE_AGENT, message_id=stream, parts=visible, metadata=model_metadata(event) or None
            )
            if said is not None and all(part.WhichOneof("content") == "text" for part in visible):
                message, key = said, said.message_id  # not twice, because the end of its agent has made it a message
        elif has_failed and event.output is None and not _uses_tools(event):
            # Abort the stream of the failed call, because an incomplete text is not an answer. Nor are the thoughts of a
            # model that has thought up to its limit of tokens, nor the blank text of one that had nothing to say.
            self._failure = event
            yield from self._flow(self._streams.abort(stream))
            return
        elif event.output is not None and is_output_of_root(event, self._root):
            self._failure = None
            self._output = Message(role=Role.ROLE_AGENT, parts=[part_of(event.output)])
        if message is not None or (stream and parts):
            # A message with tool calls is not the answer, because the agent continues after the calls.
            continues = bool(event.get_function_calls())
            yield from self._complete(CompleteMessage(stream, message, key, continues))

    def _remote_files(self, call: str, key: str, files: Iterable[Part]) -> Iterator[AgentArtifact]:
        """Yield the files that a remote agent has sent as artifacts of the task."""
        for number, file in enumerate(files):
            self._has_output = True
            artifact = Artifact(
                artifact_id=deterministic_id(self._request.task.id, call, key, str(number)),
                name=file.filename,
                parts=[file],
            )
            del file  # the artifact has a copy
            yield AgentArtifact(artifact, key=f"{key}/file/{number}")

    def _complete(self, message: CompleteMessage) -> Iterator[Emission]:
        yield from self._flow(self._streams.complete(message.stream, message))

    def _become_messages(self, streams: Iterable[TextStream]) -> Iterator[Emission]:
        """Complete streams without a complete event, because a custom agent may yield its text in chunks only."""
        for stream in streams:
            message = Message(role=Role.ROLE_AGENT, message_id=stream.message_id, parts=[part_of(stream.text)])
            self._texts.became(stream, message)
            yield from self._complete(CompleteMessage(stream.message_id, message, stream.message_id))

    def _flow(self, items: Iterable[Chunk | CompleteMessage]) -> Iterator[Emission]:
        """Convert chunks and complete messages to emissions. Hold back the newest message, which may be the answer."""
        for item in items:
            if isinstance(item, Chunk):
                if item.text:
                    # Emit the held-back message as intermediate, because more text follows, so it is not the answer.
                    yield from self._emit_last()
                yield item
            elif item.message is not None:
                if self._last is not None and self._last[1] == item.key:
                    self._last = None  # the same message again
                yield from self._emit_last()
                if item.continues:
                    yield from self._emit(item.message, item.key)
                else:
                    self._last = item.message, item.key

    def _helper_call(self, call: object) -> Iterator[Emission]:
        match call:
            case AgentInvoked(name=name, branch=branch, around=around):
                self._texts.agent_begins(name, around)
                yield from self._emit_last()
                yield AgentMetadata({INVOKED: name}, f"{self._request.turn.id}/{branch}/{name}/invoked")
            case AgentEnded(name=name, branch=branch, around=around, lags=lags):
                yield from self._become_messages(self._texts.agent_ends((branch, name), around, lags=lags))
            case ReplyChunk():
                yield from self._become_messages(self._texts.before(call.agent))
                speaker = speaker_of(call.message_id, agent=call.agent, branch=call.branch)
                yield from self._flow(self._streams.add(Chunk(call.text, call.message_id, speaker=speaker)))
            case StreamAborted():
                yield from self._flow(self._streams.abort(call.message_id))
            case DurableReply():
                yield from self._become_messages(self._texts.before(call.agent))
                # Record the reply now, so that the reply survives a crash. The last reply is also the turn's answer.
                yield from self._emit_last()
                yield from self._emit(call.message, f"{REPLY}{self._key(call.site) or call.message.message_id}")
                yield from self._flow(self._streams.discard(call.message.message_id))
            case Reaction():
                self._has_output = True
                yield reaction_artifact(self._request, call, self._key(call.site), self._reactions)
            case TypingSignal():
                yield AgentTyping()
            case FileReceived(artifact=artifact):
                self._has_output = True
                yield AgentArtifact(artifact, key=f"remote/{artifact.artifact_id}")

    async def _artifact(self, name: str, version: int, key: str) -> AgentArtifact | None:
        saved = await self._load(name, version)
        if saved is None or not (parts := file_parts(saved)):
            return None
        artifact = Artifact(name=name, parts=parts)
        artifact.metadata.update({VERSION: version})
        for part in artifact.parts:
            part.filename = part.filename or name.rpartition("/")[2]
        return AgentArtifact(with_artifact_id(self._request, artifact), key=key)

    def _emit_last(self) -> Iterator[Emission]:
        """Emit the last complete message as an intermediate message, because newer output is the answer."""
        if self._last is not None:
            message, key = self._last
            self._last = None
            yield from self._emit(message, key)

    def _emit(self, message: Message, key: str) -> Iterator[Emission]:
        self._has_messages = True
        if self._to_skip[content := _content(message, self._request)] > 0:
            self._to_skip[content] -= 1
        elif (emission := self._messages.emit(message, key)) is not None:
            yield emission

    def _unfinished(self) -> Message | None:
        """Return the text of the last stream without a complete event, as a message; None without such a stream."""
        if (stream := self._texts.unfinished()) is None:
            return None
        return Message(role=Role.ROLE_AGENT, message_id=stream.message_id, parts=[part_of(stream.text)])

    def _key(self, site: str) -> str:
        """Return the idempotency key of a helper call, made of its call site and its number at this site."""
        if not site:
            return ""
        self._counts[site] += 1
        return f"{self._request.turn.id}/{site}/{self._counts[site]}"


def _is_blank(parts: Iterable[Part]) -> bool:
    return all(part.WhichOneof("content") == "text" and not part.text.strip() for part in parts)


def _uses_tools(event: Event) -> bool:
    return bool(event.get_function_calls() or event.get_function_responses())


def _failed(event: Event) -> AgentFailed:
    """Return the error of an event without content that reports a failure, with the event's own message as a note."""
    code = event.error_code
    text = f"The model gave no answer: {code}." if code else f"The agent {event.author!r} gave no answer."
    return AgentFailed(text, event.error_message or "")


def _recorded_contents(request: TurnRequest) -> Counter[bytes]:
    """Count the messages that earlier attempts of the turn have recorded, by their serialized content."""
    statuses = [entry.event.status for entry in request.recorded if isinstance(entry.event, TaskStatusUpdateEvent)]
    return Counter(_content(status.message, request) for status in statuses if status.HasField("message"))


def _content(message: Message, request: TurnRequest) -> bytes:
    return b"\0".join(part.SerializeToString(deterministic=True) for part in parts_without_target(message, request))
