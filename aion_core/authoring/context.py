"""Context of a turn for an agent's author: the event, the inbound message, and the thread for replies.

The server makes one `AionContext` for each turn, with a `ReplySink` for the author's replies.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import core_schema

from aion_core.authoring.reply_content import Content, Target, action_of_target, message_of_content, metadata_of
from aion_core.authoring.turn_variables import variable_set
from aion_core.authoring.types import A2AInbox
from aion_core.protocol import types as a2a
from aion_core.protocol.aion.actions import conversation_at, send
from aion_core.protocol.aion.extensions import EventKind
from aion_core.protocol.aion.payloads import MessageAction
from aion_core.protocol.reserved_keys import without_reserved_metadata
from aion_core.protocol.text import utf8


class ReplySink(Protocol):
    """Protocol of each framework's adapter for the author's replies. A reply precedes any other answer of the turn."""

    def next_message_id(self) -> str:
        """Return the message id to give to the next reply if the author has not set one."""
        ...

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """Stream one text chunk of the reply with this message id.

        The caller then calls `reply` with the complete message, or `abort`. An aborted reply is no answer of the turn.
        """
        ...

    def abort(self, message_id: str) -> None:
        """Abort the streamed reply with this id, so that its chunks are no answer of the turn."""
        ...

    def streaming(self) -> AbstractContextManager[None]:
        """Return a context manager that turns off automatic streaming of model calls: the reply streams their text."""
        ...

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        """Record a reply of the agent. The message already has an id. The server sets its taskId and contextId.

        `target` is the conversation that receives the reply. None means the origin of the inbound message.
        """
        ...

    async def react(self, key: str, *, message_id: str) -> None:
        """React to the message with this id. `key` names the reaction, for example an emoji."""
        ...

    async def typing(self) -> None:
        """Show a typing indicator to the clients that stream the task. It is never stored."""
        ...

    async def history(self, thread: "Thread", *, limit: int, before: str | None) -> "Sequence[Message]":
        """Return at most `limit` of the thread's latest messages, oldest first, and only those before `before`."""
        ...


@dataclass(frozen=True, slots=True)
class User:
    """Author of a message."""

    id: str


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Identity of this agent."""

    id: str
    """Id of the agent in the request's source network or, for a request without a source network, in aion.yaml."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Event that started the turn, such as a message, a reaction or a command."""

    kind: EventKind
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the event, named as in the A2A extension, such as `command`, `reactionKey` or `actionId`."""
    id: str = ""
    """Id of the event, unique within its source. Empty for a message that no source network has sent."""
    source: str = ""
    """Source of the event, as a URI."""
    raw: Mapping[str, Any] | None = None
    """The source network's own event, with the keys `provider` and `event`. None if the client omits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Conversation to which the turn's message belongs, such as a Slack thread. It is no LangGraph thread."""

    id: str
    """Id of the room, channel or thread in the source network. Without a source network, the A2A contextId."""
    sink: ReplySink = field(repr=False, compare=False)
    parent_id: str | None = None
    """Id of the parent conversation, such as a thread's channel."""
    network: str | None = None
    """Name of the source network of the conversation, as the distribution names it."""
    default_reply_target: str | None = None
    """Id of the conversation to which `reply` sends. The reply to a direct message is a direct message."""
    routing: MessageAction | None = field(default=None, repr=False)
    """Target of replies for a distribution. None for a request without an event of a source network."""

    async def reply(self, content: Content, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Reply to the origin of the inbound message. The reply is recorded and is the turn's answer.

        The chunks of an async iterator are streamed one by one, and together form the reply. If the iterator raises an
        exception, it propagates and its chunks are not a reply. Empty text sends nothing. Metadata keys with the prefix
        `aion:` are reserved for the server and are removed.

        Raises TypeError or ValueError for unsuitable content.
        """
        await self._say(content, self.default_reply_target, self.routing, metadata)

    async def post(
        self, content: Content, *, target: Target | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Send a message to `target`, by default to the target of `reply`. See `reply` for the other arguments.

        The target is the id of a conversation, or a MessageActionPayload of the messaging extension, such as
        `{"trajectory": "direct-message", "contextId": …, "userId": …}`.
        """
        if target is None:
            await self.reply(content, metadata=metadata)
        elif isinstance(target, str):
            # Send a MessageAction only to a client that is a distribution (it has sent `routing`), because another
            # client may not understand this action.
            action = conversation_at(target) if target and self.routing is not None else None
            await self._say(content, target, action, metadata)
        else:
            action = action_of_target(target)
            await self._say(content, action.context_id, action, metadata)

    async def history(self, limit: int = 20, before: str | None = None) -> "list[Message]":
        """Return at most `limit` of the thread's latest messages, oldest first, and only those before `before`."""
        if limit < 0:
            raise ValueError("history's limit is below 0: give 0 or more.")
        return list(await self.sink.history(self, limit=limit, before=before))

    async def typing(self) -> None:
        """Show a typing indicator to the clients that stream the task. It is never stored."""
        await self.sink.typing()

    async def _say(
        self,
        content: Content,
        target: str | None,
        action: MessageAction | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        own = metadata_of(metadata)
        if isinstance(content, str | AsyncIterable):
            message_id = self.sink.next_message_id()
            text = content if isinstance(content, str) else await self._stream(content, message_id, target)
            if not text:
                return
            message = a2a.Message(message_id=message_id, parts=[a2a.Part(text=utf8(text))])
        else:
            message = without_reserved_metadata(message_of_content(content))
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
            # Close the author's iterator at once. Otherwise it would keep its connection to the model open after a
            # cancelled turn.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        return "".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Message of a thread, for an agent's author."""

    raw: a2a.Message
    """The A2A message itself, with its files and data."""
    user: User
    thread: Thread = field(repr=False)

    @property
    def id(self) -> str:
        """Id of the message (messageId)."""
        return self.raw.message_id

    @property
    def text(self) -> str:
        """Text parts of the message, joined in their order. Empty for a message without text."""
        return "".join(part.text for part in self.raw.parts if part.WhichOneof("content") == "text")

    async def reply(self, content: Content, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Reply in the message's thread. See `Thread.reply`."""
        await self.thread.reply(content, metadata=metadata)

    async def react(self, key: str) -> None:
        """React to this message. `key` names the reaction, for example an emoji."""
        if not key:
            raise ValueError("react's key is empty.")
        await self.thread.sink.react(key, message_id=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AionContext:
    """Context of the running turn. Agent code gets it as a graph's `runtime.context` or with `get_aion_context()`."""

    inbox: A2AInbox
    """Task, message and request metadata in A2A's form."""
    thread: Thread
    message: Message | None
    """The inbound message; None for another event, such as a reaction."""
    event: Event
    self: AgentIdentity
    """Identity of the running agent."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        # Tell pydantic to check only the class of an AionContext. LangChain builds a pydantic model of a tool's
        # parameters, and one of them may be `runtime: ToolRuntime[AionContext]`.
        return core_schema.is_instance_schema(cls)


_current: ContextVar[AionContext] = ContextVar("aion_context")


def get_aion_context() -> AionContext:
    """Return the AionContext of the running turn, in any code of the agent, such as a node or a tool.

    Raises RuntimeError outside of a turn.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "No turn is running here: get_aion_context() is for code that an agent runs while it answers a message."
        ) from None


def aion_context_set(context: AionContext) -> AbstractContextManager[None]:
    """Return a context manager in which `get_aion_context()` returns the given context."""
    return variable_set(_current, context)
