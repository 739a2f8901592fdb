"""Context of a turn for every framework: the AionContext and the inbox of its message."""

from typing import Any

from aion_core.agents.message_text import text_of
from aion_core.authoring.context import AgentIdentity, AionContext, Event, ReplySink, Thread, User
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.types import A2AInbox
from aion_core.engine.agent import TurnRequest
from aion_core.protocol.aion.actions import answer_to
from aion_core.protocol.aion.inbound import Inbound, InboundEvent, read
from aion_core.protocol.message_json import with_integers
from aion_core.protocol.reserved_keys import ALLOWED_SKILLS, NO_AION_EXTENSIONS, without_reserved_keys

NETWORK, SENDER_ID = "aion:network", "aion:senderId"
"""Keys of the inbox's metadata for a request's source network and its sender there. Only the server sets them."""


def context_of(request: TurnRequest, sink: ReplySink, *, name: str = "") -> AionContext:
    """Return the AionContext of a turn, with its event, message and thread.

    Replies of the author's code go to `sink`. `name` is the agent's name.
    """
    inbound = inbound_of(request)
    routing = answer_to(inbound)
    thread = Thread(
        id=routing.context_id if routing else request.context.context_id,
        sink=sink,
        parent_id=routing.parent_context_id if routing else None,
        network=inbound.network,
        default_reply_target=routing.context_id if routing else None,
        routing=routing,
    )
    event = _event(inbound.event, request)
    message = ThreadMessage(raw=request.message, user=User(_sender(inbound) or request.context.owner), thread=thread)
    return AionContext(
        inbox=_inbox(request, inbound),
        thread=thread,
        message=message if event.kind == "message" else None,
        event=event,
        self=_identity(request, inbound, name),
    )


def inbox_of(request: TurnRequest) -> A2AInbox:
    """Return the inbox of a turn, with the current task, the whole message and the request's metadata.

    The metadata also has the source network, the sender in that network, and the restricted skills that the caller may
    use.
    """
    return _inbox(request, inbound_of(request))


def inbound_of(request: TurnRequest) -> Inbound:
    """Return the contents of the Aion extensions in a turn's message and metadata. The server has checked them."""
    if NO_AION_EXTENSIONS in request.request:
        return Inbound()
    return read(request.message, request.request)


def _inbox(request: TurnRequest, inbound: Inbound) -> A2AInbox:
    named = {NETWORK: inbound.network, SENDER_ID: inbound.sender_id}
    metadata_in = with_integers(request.request)
    metadata = {
        **without_reserved_keys(metadata_in),
        **({ALLOWED_SKILLS: metadata_in[ALLOWED_SKILLS]} if ALLOWED_SKILLS in metadata_in else {}),
        **{key: value for key, value in named.items() if value},
    }
    # Skip pydantic's validation, because it would convert task and message to JSON, which takes time, and the server
    # has checked both already.
    return A2AInbox.model_construct(task=request.task, message=request.message, metadata=metadata)


def _event(happened: InboundEvent | None, request: TurnRequest) -> Event:
    if happened is None:
        return Event("message", {"text": text_of(request)})
    payload: dict[str, Any] = {"text": text_of(request)} if happened.kind == "message" else {}
    if happened.payload is not None:
        payload |= happened.payload.as_json()
    raw = without_reserved_keys(with_integers(happened.source.as_json())) if happened.source is not None else None
    return Event(happened.kind, payload, id=happened.envelope.id, source=happened.envelope.source, raw=raw)


def _sender(inbound: Inbound) -> str | None:
    return inbound.sender_id or (inbound.distribution.caller_id if inbound.distribution is not None else None)


def _identity(request: TurnRequest, inbound: Inbound, name: str) -> AgentIdentity:
    identity = inbound.distribution.identity() if inbound.distribution is not None else None
    if identity is None:
        return AgentIdentity(request.context.agent, name)
    return AgentIdentity(identity.id, identity.display_name or identity.user_name or name)
