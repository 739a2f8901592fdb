"""What an author's helpers say, as values, whatever the framework that carries them; and what was said before."""

from collections.abc import Sequence
from dataclasses import dataclass

from aion_core.authoring.context import Message, Thread, User
from aion_core.ports import Asked
from aion_core.protocol import types as a2a

TARGET = "aion:target"
"""Where a reply goes, in its metadata; the server's to set."""


@dataclass(frozen=True, slots=True)
class ChunkSaid:
    """A chunk of a reply, as it comes."""

    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class BrokeOff:
    """No more comes of what was being said under this id, a reply or a model's message: it is not whole."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Replied:
    """A durable reply."""

    message: a2a.Message
    node: str


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction to a message."""

    key: str
    message_id: str
    node: str


@dataclass(frozen=True, slots=True)
class IsTyping:
    """The agent is writing."""


async def history_of(asked: Asked, thread: Thread, *, limit: int, before: str | None) -> Sequence[Message]:
    """Return what was said in the turn's context, as `ReplySink.history` does: the turn's own message last."""
    if limit <= 0:
        return []
    said = await _said(asked, limit, before)
    names = {a2a.Role.ROLE_AGENT: asked.context.agent}
    owner = asked.context.owner
    return [Message(raw=message, user=User(names.get(message.role, owner)), thread=thread) for message in said[-limit:]]


async def _said(asked: Asked, limit: int, before: str | None) -> list[a2a.Message]:
    this = asked.message
    if asked.history is None:
        # Only the task is at hand.
        said = list(asked.task.history)
        place = next((n for n, message in enumerate(said) if message.message_id == before), len(said))
        return said[:place]
    if before not in (None, this.message_id):
        return list(await asked.history(limit, before))
    # Whoever reads the context may or may not count the message that it is being read for.
    earlier = [each for each in await asked.history(limit + 1, None) if each.message_id != this.message_id]
    return earlier if before is not None else [*earlier, this]
