"""What an ADK agent's events say, as emissions, and what its turn leaves behind (R87-R90)."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

from google.adk.events import Event
from google.genai import types as genai

from aion_core.agents.adk.envelope import outbox_in
from aion_core.agents.adk.observed import Invoked
from aion_core.agents.adk.parts import a2a_parts, data_part, file_parts, text_of
from aion_core.agents.outbound import (
    INVOKED,
    REPLY,
    DurableReply,
    EmittedMessages,
    Reaction,
    ReplyChunk,
    StreamAborted,
    StreamSequencer,
    TurnOutput,
    TypingSignal,
    final_emissions,
    final_key,
    reaction_artifact,
    with_artifact_id,
)
from aion_core.authoring.types import A2AOutbox
from aion_core.errors import AgentFailed
from aion_core.ports import AgentArtifact, AgentMetadata, AgentTyping, Chunk, Emission, TurnRequest
from aion_core.protocol.types import Artifact, Message, Part, Role, Task, TaskStatusUpdateEvent

VERSION = "version"
"""The metadata key of an artifact under which ADK's version of it stands."""

Load = Callable[[str, int], Awaitable[genai.Part | None]]
"""Reads a version of an artifact that the agent has saved, by its file name."""


class Outbound:
    """Hears one turn of an agent, event by event."""

    def __init__(self, asked: TurnRequest, load: Load, *, again: bool = False) -> None:
        """`again`: the turn is run a second time from its beginning, and what it said then is not to be said twice."""
        self._asked, self._load = asked, load
        self._reactions = {artifact.artifact_id for artifact in asked.task.artifacts}
        self._emitted = EmittedMessages(asked)
        self._said_before = _texts(asked) if again else Counter[bytes]()
        self._sequencer = StreamSequencer()
        self._speaking: dict[tuple[str, str], str] = {}
        """What each agent is saying, under the id of its message, until an event of its closes it."""
        self._spoken: dict[str, list[str]] = {}
        self._held: tuple[Message, str] | None = None
        """The last whole message: the answer, unless another one follows; and the key of its event."""
        self._returned: Message | None = None
        """What a workflow returned last; on the way it is for the next node."""
        self._failed: Event | None = None
        self._outboxes: list[A2AOutbox] = []
        self._ordinals: Counter[str] = Counter()

    async def hear(self, given: object) -> AsyncGenerator[Emission, None]:
        """Yield what it has for the client: an event of ADK's, or what a helper says."""
        if isinstance(given, Event):
            for emission in self._event(given):
                yield emission
            for name, version in given.actions.artifact_delta.items() if not given.partial else ():
                if (artifact := await self._artifact(name, version, f"{given.id}/{name}")) is not None:
                    yield artifact
        else:
            for emission in self._helper(given):
                yield emission

    def silence(self) -> Iterator[Emission]:
        """Yield what is still to be heard of what is spoken, since the turn goes on in another process."""
        yield from self._sequencer.close_all()

    def before_question(self) -> Iterator[Emission]:
        """Yield what the turn has answered before its question: the turn that takes the answer has one of its own."""
        yield from self._sequencer.close_all()
        yield from self._say_held()
        if (spoken := self._unclosed()) is not None:
            text = Message(role=Role.ROLE_AGENT, parts=[Part(text=spoken)])
            yield from self._say(text, final_key(self._asked, "question"))

    def rest(self) -> Iterator[Emission]:
        """Yield what is still to be said once the last event is heard, the Reply last.

        Raises AgentFailed where the model's last word was that it failed.
        """
        yield from self._sequencer.close_all()
        spoken = self._unclosed()
        if spoken is not None:
            # It is the last word; what was whole came before it (R89).
            yield from self._say_held()
        held = list(self._held[0].parts) if self._held is not None else None
        if self._returned is not None and list(self._returned.parts) != held:
            yield from self._say_held()
            self._held = self._returned, ""
        outbox = _together(self._outboxes)
        if self._failed is not None and spoken is None and outbox is None and self._emitted.reply is None:
            raise AgentFailed(f"The model gave no answer: {self._failed.error_code}.")
        left = TurnOutput(
            buffered=self._emitted.reply,
            outbox=outbox,
            # An earlier try may have said it already, when it thought that more would follow.
            returned=(self._emitted.get(self._held[1]) or self._held[0]) if self._held is not None else None,
            streamed=spoken or "",
            emitted=self._emitted.intermediate,
        )
        yield from final_emissions(self._asked, left)

    def _event(self, event: Event) -> Iterator[Emission]:
        if event.author == "user":
            return
        parts = (event.content.parts if event.content is not None else None) or []
        speaker = (event.branch or "", event.author)
        if event.partial:
            if text := text_of(parts):
                # More is said: what was whole is not the last word.
                yield from self._say_held()
                spoken = self._speaking.setdefault(speaker, event.id)
                self._spoken.setdefault(spoken, []).append(text)
                yield from self._sequencer.add(Chunk(text, spoken))
            return
        # A model that fails ends what it was saying, too: half an answer is none.
        if (parts or event.error_code) and (closed := self._speaking.pop(speaker, None)) is not None:
            self._spoken.pop(closed)
            yield from self._sequencer.close(closed)
        if (outbox := outbox_in(event)) is not None:
            # It is what this event says, whatever else it holds.
            yield from self._say_held()
            self._outboxes.append(outbox)
            self._failed = None
            return
        if event.error_code and not parts:
            self._failed = event
        if event.output is not None and not parts:
            self._failed = None
            self._returned = Message(role=Role.ROLE_AGENT, parts=[_plain(event.output)])
        if said := a2a_parts(parts) or _result(event):
            self._failed = self._returned = None
            yield from self._whole(Message(role=Role.ROLE_AGENT, parts=said), event)

    def _whole(self, message: Message, event: Event) -> Iterator[Emission]:
        yield from self._say_held()
        if event.get_function_calls():
            # The agent goes on: these are words on the way.
            yield from self._say(message, event.id)
        else:
            self._held = message, event.id

    def _helper(self, given: object) -> Iterator[Emission]:
        match given:
            case Invoked(name=name, branch=branch):
                yield from self._say_held()
                yield AgentMetadata({INVOKED: name}, f"{self._asked.turn.id}/{branch}/{name}/invoked")
            case ReplyChunk():
                yield from self._sequencer.add(Chunk(given.text, given.message_id))
            case StreamAborted():
                yield from self._sequencer.abort(given.message_id)
            case DurableReply():
                # Recorded now, so that no crash can lose it; it is also the answer when the turn ends (D5).
                yield from self._say_held()
                yield from self._say(given.message, f"{REPLY}{self._key(given.node) or given.message.message_id}")
                yield from self._sequencer.discard(given.message.message_id)
            case Reaction():
                yield reaction_artifact(self._asked, given, self._key(given.node), self._reactions)
            case TypingSignal():
                yield AgentTyping()
            case _:
                pass

    async def _artifact(self, name: str, version: int, key: str) -> AgentArtifact | None:
        part = await self._load(name, version)
        if part is None or not (parts := file_parts(part)):
            return None
        artifact = Artifact(name=name, parts=parts)
        artifact.metadata.update({VERSION: version})
        for each in artifact.parts:
            each.filename = each.filename or name.rpartition("/")[2]
        return AgentArtifact(with_artifact_id(self._asked, artifact), key=key)

    def _say_held(self) -> Iterator[Emission]:
        if self._held is not None:
            message, key = self._held
            self._held = None
            yield from self._say(message, key)

    def _say(self, message: Message, key: str) -> Iterator[Emission]:
        if self._said_before[_content(message)] > 0:
            self._said_before[_content(message)] -= 1
        elif (said := self._emitted.emit(message, key)) is not None:
            yield said

    def _unclosed(self) -> str | None:
        """Return what was spoken last and never closed, None where all was closed."""
        return "".join(self._spoken[last]) if (last := next(reversed(self._spoken), None)) is not None else None

    def _key(self, place: str) -> str:
        """Return what tells this from its repeat: where it was said, and how often there before."""
        if not place:
            return ""
        self._ordinals[place] += 1
        return f"{self._asked.turn.id}/{place}/{self._ordinals[place]}"


def _result(event: Event) -> list[Part]:
    """Return what the event has for the client beside its content: a tool's result that no model is to put in words."""
    actions = event.actions
    asks = actions.requested_auth_configs or actions.requested_tool_confirmations
    if not actions.skip_summarization or actions.escalate or asks:
        return []
    results = [response.response for response in event.get_function_responses() if response.response]
    # ADK wraps what is no dict.
    return [_plain(result["result"] if list(result) == ["result"] else result) for result in results]


def _plain(value: object) -> Part:
    return Part(text=value) if isinstance(value, str) else data_part(value)


def _together(outboxes: Sequence[A2AOutbox]) -> A2AOutbox | None:
    """Return what several events of a turn put in the outbox as one: messages in their order, patches one on another."""
    if len(outboxes) < 2:
        return outboxes[0] if outboxes else None
    patch = Task()
    for outbox in outboxes:
        if outbox.message is not None:
            patch.history.append(outbox.message)
        elif outbox.task is not None:
            patch.MergeFrom(outbox.task)
    return A2AOutbox(task=patch)


def _texts(asked: TurnRequest) -> Counter[bytes]:
    """Return what earlier tries of the turn have said."""
    statuses = [entry.event.status for entry in asked.recorded if isinstance(entry.event, TaskStatusUpdateEvent)]
    return Counter(_content(status.message) for status in statuses if status.HasField("message"))


def _content(message: Message) -> bytes:
    return b"\0".join(part.SerializeToString(deterministic=True) for part in message.parts)
