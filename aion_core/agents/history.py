"""Latest messages of a turn's context, for the author's code."""

from collections.abc import Sequence

from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.context import Thread, User
from aion_core.engine.agent import TurnRequest
from aion_core.protocol.types import Message, Role


async def thread_history(
    request: TurnRequest, thread: Thread, *, limit: int, before: str | None
) -> Sequence[ThreadMessage]:
    """Return the latest messages of the turn's context, ending with the turn's own message. See `ReplySink.history`."""
    if limit <= 0:
        return []
    messages = await _latest_messages(request, limit, before)
    names = {Role.ROLE_AGENT: request.context.agent}
    owner = request.context.owner
    return [
        ThreadMessage(raw=message, user=User(names.get(message.role, owner)), thread=thread)
        for message in messages[-limit:]
    ]


async def _latest_messages(request: TurnRequest, limit: int, before: str | None) -> list[Message]:
    this = request.message
    if request.history is None:
        # Use the messages of the task only, because this turn cannot read the messages of the context's other tasks.
        messages = list(request.task.history)
        place = next((n for n, message in enumerate(messages) if message.message_id == before), len(messages))
        return messages[:place]
    if before not in (None, this.message_id):
        return list(await request.history(limit, before))
    # Leave the turn's message out of the messages that were read, because it is appended last in any case.
    earlier = [each for each in await request.history(limit + 1, None) if each.message_id != this.message_id]
    return earlier if before is not None else [*earlier, this]
