"""`ReplySink` of a turn, which sends the calls of the author's helpers to the turn's other events."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from uuid_utils import uuid7

from aion_core.agents.emission_ids import deterministic_id
from aion_core.agents.helper_calls import DurableReply, HelperCall, Reaction, ReplyChunk, StreamAborted, TypingSignal
from aion_core.agents.history import thread_history
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.context import Thread
from aion_core.engine.agent import TurnRequest
from aion_core.protocol.types import Message

TARGET = "aion:target"
"""Metadata key of a reply for its target conversation. Only the server sets it."""


class TurnReplySink:
    """`ReplySink` of one turn. Helper calls are sent in the same way as the turn's other events, and in their order."""

    def __init__(
        self,
        request: TurnRequest,
        send: Callable[[HelperCall], Awaitable[None]],
        send_nowait: Callable[[HelperCall], object],
        *,
        ids_of: str = "",
        site: Callable[[], str] = str,
        speaker: Callable[[], tuple[str, str]] = lambda: ("", ""),
    ) -> None:
        """Create the sink. `send` sends a call and waits until it is recorded, and `send_nowait` does not wait.

        `site` returns the call site of the running code, and `speaker` the branch and the name of the running agent.
        Code that runs again gets the same ids for its replies, within the turn or task with the id `ids_of`.
        """
        self._request, self._send, self._send_nowait = request, send, send_nowait
        self._ids_of, self._site, self._speaker = ids_of, site, speaker
        self._replies: Counter[str] = Counter()

    def next_message_id(self) -> str:
        """Return the message id for the next reply. Code that runs again gets the same ids. See `ReplySink`."""
        site = self._site()
        if not site:
            return str(uuid7())
        self._replies[site] += 1
        return deterministic_id(self._ids_of, site, str(self._replies[site]))

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        """Send a text chunk of a streamed reply. See `ReplySink.chunk`."""
        branch, agent = self._speaker()
        await self._send(ReplyChunk(text, message_id, self._site(), agent, branch))

    def abort(self, message_id: str) -> None:
        """Abort a streamed reply, so that its chunks are no answer. See `ReplySink.abort`."""
        self._send_nowait(StreamAborted(message_id))

    def streaming(self) -> AbstractContextManager[None]:
        """Do nothing, because only LangGraph streams models that the author's code calls. See `ReplySink.streaming`."""
        return nullcontext()

    async def reply(self, message: Message, *, target: str | None) -> None:
        """Send a reply, with its target in the reply's metadata. See `ReplySink.reply`."""
        if target is not None:
            message.metadata.update({TARGET: target})
        _, agent = self._speaker()
        await self._send(DurableReply(message, self._site(), agent))

    async def react(self, key: str, *, message_id: str) -> None:
        """Send a reaction to a message. See `ReplySink.react`."""
        await self._send(Reaction(key, message_id, self._site()))

    async def typing(self) -> None:
        """Send a typing signal. See `ReplySink.typing`."""
        await self._send(TypingSignal())

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[ThreadMessage]:
        """Return the latest messages of the turn's context, oldest first. See `ReplySink.history`."""
        return await thread_history(self._request, thread, limit=limit, before=before)
