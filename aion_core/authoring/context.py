"""The turn as an agent's author sees it: what happened, who spoke, and the thread in which to answer (S2).

The server makes one `AionContext` for each turn and gives it a `ReplySink`, through which all that the author says
goes back.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError
from pydantic_core import core_schema

from aion_core.authoring.json_forms import as_value, message_of
from aion_core.authoring.types import A2AInbox
from aion_core.protocol import types as a2a
from aion_core.protocol.aion.extensions import EventKind, conversation_at, send
from aion_core.protocol.aion.payloads import MessageAction
from aion_core.protocol.message_rules import without_reserved_keys, without_reserved_metadata

Content = str | AsyncIterable[str] | a2a.Message | Mapping[str, Any]
"""What can be said: text, text in chunks as it comes, or an A2A Message (the SDK's, or as v1 or v0.3 JSON)."""

Target = str | Mapping[str, Any]
"""Where something is said: the id of a conversation in the source network, or a whole MessageActionPayload."""


class ReplySink(Protocol):
    """Where a turn's replies go: the response buffer, which outranks every other answer of the turn (D5, R73)."""

    def next_message_id(self) -> str:
        """Return the id of a reply that has none of its own; each call is another reply."""
        ...

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """Speak one chunk of the reply with this id, as it comes.

        The whole of it follows as `reply`, or else `abort`: its chunks are nobody's answer then.
        """
        ...

    def abort(self, message_id: str) -> None:
        """Take note that no more comes of the reply with this id, whose chunks were spoken."""
        ...

    def streaming(self) -> AbstractContextManager[None]:
        """Be entered while a reply's iterator runs: what a model says in there is the reply's to stream, not its own."""
        ...

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        """Keep a reply: it is the agent's, has an id, and neither taskId nor contextId, which the server sets.

        `target` is where it goes; None is where the inbound message came from (R58).
        """
        ...

    async def react(self, key: str, *, message_id: str) -> None:
        """React to the message with this id, with an emoji's name, say."""
        ...

    async def typing(self) -> None:
        """Let the other side see that an answer is being written; never kept."""
        ...

    async def history(self, thread: "Thread", *, limit: int, before: str | None) -> "Sequence[Message]":
        """Return the thread's latest messages, at most `limit`, oldest first; only those before the one with this id."""
        ...


@dataclass(frozen=True, slots=True)
class User:
    """Who wrote a message."""

    id: str


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Who this agent is."""

    id: str
    """In the network that the request comes from; its id in aion.yaml where the request names no network."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What the turn is about."""

    kind: EventKind
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What came with it, in the extension's own names: `command` and `arguments`, `reactionKey`, `actionId`."""
    id: str = ""
    """The event's own, unique within its source; "" where the client sent a message and no event."""
    source: str = ""
    """Where the event comes from, as a URI."""
    raw: Mapping[str, Any] | None = None
    """The event as its network had it: `provider` and `event`; None where the client leaves that out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The conversation that the turn belongs to; not LangGraph's `thread_id`, which names its checkpoints (R56)."""

    id: str
    """That of the source network's room, channel or thread; the A2A contextId where there is none."""
    sink: ReplySink = field(repr=False, compare=False)
    parent_id: str | None = None
    """What this one is part of, such as a thread's channel."""
    network: str | None = None
    """Where the conversation takes place, as the distribution names it."""
    default_reply_target: str | None = None
    """Where `reply` goes, as the inbound message has it: a direct message is answered by one (R58)."""
    routing: MessageAction | None = field(default=None, repr=False)
    """The same in whole, as a distribution is told of it; None where the request brought no event of a network."""

    async def reply(self, content: Content, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Answer where the inbound message came from; this is the turn's durable reply (D5).

        An async iterator's chunks are streamed as they come, and their whole is the reply; what it raises passes
        through, and what it had said by then is no reply. Empty text says nothing. Metadata keys that begin with
        `aion:` are the server's, and are left out.

        Raises TypeError or ValueError, with a sentence, for what cannot be said.
        """
        await self._say(content, self.default_reply_target, self.routing, metadata)

    async def post(
        self, content: Content, *, target: Target | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Say something at `target`, or without one where `reply` would; otherwise as `reply`.

        The target is the id of a conversation, or, where more is to be said of it, a MessageActionPayload of the
        messaging extension, such as `{"trajectory": "direct-message", "contextId": …, "userId": …}`.
        """
        if target is None:
            await self.reply(content, metadata=metadata)
        elif isinstance(target, str):
            # A distribution is told by the extension's own means; another client may not know them.
            action = conversation_at(target) if target and self.routing is not None else None
            await self._say(content, target, action, metadata)
        else:
            action = _action(target)
            await self._say(content, action.context_id, action, metadata)

    async def history(self, limit: int = 20, before: str | None = None) -> "list[Message]":
        """Return the thread's latest messages, at most `limit`, oldest first; only those before the one with this id."""
        if limit < 0:
            raise ValueError("history's limit is below 0: give 0 or more.")
        return list(await self.sink.history(self, limit=limit, before=before))

    async def typing(self) -> None:
        """Let the other side see that an answer is being written, where it is listening."""
        await self.sink.typing()

    async def _say(
        self,
        content: Content,
        target: str | None,
        action: MessageAction | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        own = _metadata(metadata)
        if isinstance(content, str | AsyncIterable):
            message_id = self.sink.next_message_id()
            text = content if isinstance(content, str) else await self._stream(content, message_id, target)
            if not text:
                return
            message = a2a.Message(message_id=message_id, parts=[a2a.Part(text=text)])
        else:
            message = without_reserved_metadata(_message(content))
            message.message_id = message.message_id or self.sink.next_message_id()
            message.ClearField("task_id")
            message.ClearField("context_id")
        message.role = a2a.Role.ROLE_AGENT
        for key, held in own.fields.items():
            message.metadata.fields[key].CopyFrom(held)
        if action is not None:
            send(message, action)
        await self.sink.reply(message, target=target)

    async def _stream(self, chunks: AsyncIterable[str], message_id: str, target: str | None) -> str:
        said: list[str] = []
        try:
            with self.sink.streaming():
                async for chunk in chunks:
                    if not isinstance(chunk, str):
                        raise TypeError(
                            f"The iterator given to reply yields {type(chunk).__name__}: have it yield text, such as "
                            "`(str(chunk.text) async for chunk in model.astream(…))`."
                        )
                    if chunk:
                        said.append(chunk)
                        await self.sink.chunk(chunk, message_id=message_id, target=target)
        except BaseException:
            self.sink.abort(message_id)
            raise
        finally:
            # A cancelled turn gives the model's connection back now, not when memory is next tidied.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        return "".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the thread."""

    raw: a2a.Message
    """The A2A message itself, with its files and data."""
    user: User
    thread: Thread = field(repr=False)

    @property
    def id(self) -> str:
        """Its messageId."""
        return self.raw.message_id

    @property
    def text(self) -> str:
        """Its text parts, in order, as one text; empty where it has none."""
        return "".join(part.text for part in self.raw.parts if part.WhichOneof("content") == "text")

    async def reply(self, content: Content, *, metadata: Mapping[str, Any] | None = None) -> None:
        """See `Thread.reply`."""
        await self.thread.reply(content, metadata=metadata)

    async def react(self, key: str) -> None:
        """React to this message, with an emoji's name, say."""
        if not key:
            raise ValueError("react's key is empty.")
        await self.thread.sink.react(key, message_id=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AionContext:
    """The turn: what a graph finds as `runtime.context`, and any code of an agent by `get_aion_context()`."""

    inbox: A2AInbox
    """The task, the message and the request's metadata, as A2A has them."""
    thread: Thread
    message: Message | None
    """What was said; None where the event is something else, such as a reaction."""
    event: Event
    self: AgentIdentity
    """The agent that is running."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        # LangChain makes a model of a tool's parameters, `runtime: ToolRuntime[AionContext]` among them.
        return core_schema.is_instance_schema(cls)


_current: ContextVar[AionContext] = ContextVar("aion_context")


def get_aion_context() -> AionContext:
    """Return the turn that is running, wherever in the agent's code: a node, a tool, a thread that LangGraph started.

    Raises RuntimeError where none is.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "No turn is running here: get_aion_context() is for code that an agent runs while it answers a message."
        ) from None


@contextmanager
def aion_context_set(context: AionContext) -> Iterator[None]:
    """Make this the running turn, for all that is started within."""
    token = _current.set(context)
    try:
        yield
    finally:
        # An async generator may be closed by another task than the one it began in; the value is not set in that one.
        with suppress(ValueError):
            _current.reset(token)


def _action(given: Mapping[str, Any]) -> MessageAction:
    try:
        return MessageAction.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(step) for step in problem["loc"])
        raise ValueError(f"post's target is no MessageActionPayload: {where}: {problem['msg']}.") from error


def _metadata(given: Mapping[str, Any] | None) -> Struct:
    if not isinstance(given, Mapping | None):
        raise TypeError(f"reply's metadata is {type(given).__name__}: give it as a dict.")
    return as_value(without_reserved_keys(given or {}), "reply's metadata").struct_value


def _message(content: Any) -> a2a.Message:
    try:
        message = message_of(content)
    except ValueError as error:
        raise TypeError(f"reply takes text, an async iterator of text, or an A2A Message. {error}") from error
    if not message.parts:
        raise ValueError("The message given to reply has no parts: give it at least one.")
    return message
