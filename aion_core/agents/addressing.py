"""Target of the agent's messages: by default, the place of the client's event in its network."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from msgspec.structs import replace

from aion_core.agents.reply_sink import TARGET
from aion_core.agents.turn_context import inbound_of
from aion_core.engine.agent import AgentMessage, Batch, Emission, InputRequired, Reply, TurnRequest
from aion_core.protocol.aion.actions import answer_to, send, target_of
from aion_core.protocol.aion.payloads import MessageAction
from aion_core.protocol.types import Message, Part

E = TypeVar("E", bound=Emission)


def addressed(request: TurnRequest, emissions: AsyncGenerator[Emission, None]) -> AsyncGenerator[Emission, None]:
    """Return a turn's emissions; each message without a target gets that of `thread.reply`.

    If the request has no event of a source network, its messages have no target.
    """
    action = answer_to(inbound_of(request))
    return emissions if action is None else _addressed(emissions, action)


def parts_without_target(message: Message, request: TurnRequest) -> list[Part]:
    """Return the parts of a message without the target that `addressed` adds, to compare new and recorded messages."""
    # Only a message with another part beside its content can have a target: most have one part.
    action = answer_to(inbound_of(request)) if len(message.parts) > 1 else None
    return [part for part in message.parts if action is None or part != target_of(action)]


async def _addressed(
    emissions: AsyncGenerator[Emission, None], action: MessageAction
) -> AsyncGenerator[Emission, None]:
    async with aclosing(emissions):
        async for emission in emissions:
            if isinstance(emission, Batch):
                yield Batch([_with_target(each, action) for each in emission.emissions])
            else:
                yield _with_target(emission, action)


def _with_target(emission: E, action: MessageAction) -> E:
    if not isinstance(emission, AgentMessage | InputRequired | Reply) or emission.message is None:
        return emission
    message = Message()
    message.CopyFrom(emission.message)
    if send(message, action):
        message.metadata.update({TARGET: action.context_id})
    return replace(emission, message=message)
