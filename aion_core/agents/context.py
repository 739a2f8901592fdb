"""The turn as its author sees it, made of what was asked; the same for both frameworks."""

from aion_core.authoring.context import AgentIdentity, AionContext, Event, Message, ReplySink, Thread, User
from aion_core.authoring.json_values import with_integers
from aion_core.authoring.types import A2AInbox
from aion_core.ports import Asked

NETWORK = "aion:network"
"""The key of the request's metadata under which the distribution names the network that a message comes from."""


def context_of(asked: Asked, sink: ReplySink, *, name: str = "") -> AionContext:
    """Return the turn's context: who spoke, in which thread, and where replies go (R53-R55, R58).

    `name` is the agent's, as its author has it.
    """
    network = asked.request.get(NETWORK)
    thread = Thread(id=asked.context.context_id, sink=sink, network=str(network) if network else None)
    return AionContext(
        inbox=inbox_of(asked),
        thread=thread,
        message=Message(raw=asked.message, user=User(asked.context.owner), thread=thread),
        event=Event("message", {"text": text_of(asked)}),
        self=AgentIdentity(asked.context.agent, name),
    )


def inbox_of(asked: Asked) -> A2AInbox:
    """Return the envelope of the message: the task as it stands, the whole message, the request's metadata (R51)."""
    return A2AInbox(task=asked.task, message=asked.message, metadata=with_integers(asked.request))


def text_of(asked: Asked) -> str:
    """Return the message's text parts, in order, as one text (R50)."""
    return "".join(part.text for part in asked.message.parts if part.WhichOneof("content") == "text")
