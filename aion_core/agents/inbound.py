"""Input of a turn, the same for every framework: its context, its inbox, and the question that its message answers."""

import logging
from typing import Any

from google.protobuf.json_format import MessageToDict

from aion_core.authoring.context import AgentIdentity, AionContext, Event, ReplySink, Thread, User
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.json_forms import with_integers
from aion_core.authoring.types import A2AInbox
from aion_core.errors import InvalidMessage
from aion_core.ports import TurnRequest
from aion_core.protocol.aion.extensions import Inbound, InboundEvent, answer_to, read
from aion_core.protocol.message_rules import ALLOWED_SKILLS, without_reserved_keys
from aion_core.protocol.types import Message, Role
from aion_core.tasks.resume_input import INTERRUPT_ID, INTERRUPTS

logger = logging.getLogger(__name__)

# ── Context and inbox ─────────────────────────────────────────────────────────────────────────────────────────────────

NETWORK, SENDER_ID = "aion:network", "aion:senderId"
"""The inbox's keys of the network that the request comes from, and of its sender there: the server's to set (R76)."""


def context_of(asked: TurnRequest, sink: ReplySink, *, name: str = "") -> AionContext:
    """Return the turn's context: what happened, who spoke, in which thread, and where replies go (R53-R55, R58).

    `name` is the agent's, as its author has it.
    """
    inbound = inbound_of(asked)
    routing = answer_to(inbound)
    thread = Thread(
        id=routing.context_id if routing else asked.context.context_id,
        sink=sink,
        parent_id=routing.parent_context_id if routing else None,
        network=inbound.network,
        default_reply_target=routing.context_id if routing else None,
        routing=routing,
    )
    event = _event(inbound.event, asked)
    said = ThreadMessage(raw=asked.message, user=User(_sender(inbound) or asked.context.owner), thread=thread)
    return AionContext(
        inbox=_inbox(asked, inbound),
        thread=thread,
        message=said if event.kind == "message" else None,
        event=event,
        self=_identity(asked, inbound, name),
    )


def inbox_of(asked: TurnRequest) -> A2AInbox:
    """Return the envelope of the message: the task as it stands, the whole message, the request's metadata (R51).

    To these are added the network and the sender there, as the distribution names them, and the guarded skills that the
    caller may use, where there are any.
    """
    return _inbox(asked, inbound_of(asked))


def inbound_of(asked: TurnRequest) -> Inbound:
    """Return what the Aion extensions say of what was asked."""
    try:
        return read(asked.message, asked.request)
    except InvalidMessage as error:
        # Such a request is refused; this one was taken in by a version that did not look.
        logger.warning("%s It is taken for a message.", error, extra={"task_id": asked.task.id})
        return Inbound()


def text_of(asked: TurnRequest) -> str:
    """Return the message's text parts, in order, as one text (R50)."""
    return "".join(part.text for part in asked.message.parts if part.WhichOneof("content") == "text")


def _inbox(asked: TurnRequest, inbound: Inbound) -> A2AInbox:
    named = {NETWORK: inbound.network, SENDER_ID: inbound.sender_id}
    given = with_integers(asked.request)
    metadata = {
        **without_reserved_keys(given),
        **({ALLOWED_SKILLS: given[ALLOWED_SKILLS]} if ALLOWED_SKILLS in given else {}),
        **{key: value for key, value in named.items() if value},
    }
    return A2AInbox(task=asked.task, message=asked.message, metadata=metadata)


def _event(happened: InboundEvent | None, asked: TurnRequest) -> Event:
    if happened is None:
        return Event("message", {"text": text_of(asked)})
    payload: dict[str, Any] = {"text": text_of(asked)} if happened.kind == "message" else {}
    if happened.payload is not None:
        payload |= happened.payload.as_json()
    raw = without_reserved_keys(with_integers(happened.source.as_json())) if happened.source is not None else None
    return Event(happened.kind, payload, id=happened.envelope.id, source=happened.envelope.source, raw=raw)


def _sender(inbound: Inbound) -> str | None:
    return inbound.sender_id or (inbound.distribution.caller_id if inbound.distribution is not None else None)


def _identity(asked: TurnRequest, inbound: Inbound, name: str) -> AgentIdentity:
    identity = inbound.distribution.identity() if inbound.distribution is not None else None
    if identity is None:
        return AgentIdentity(asked.context.agent, name)
    return AgentIdentity(identity.id, identity.display_name or identity.user_name or name)


# ── Question that the message answers ─────────────────────────────────────────────────────────────────────────────────

PAUSED = "pausedBefore"
"""The metadata key of the nodes before which a graph was compiled to pause."""


class InvalidResumeInput(ValueError):
    """The answer is none that the question takes; the sentence says what would be."""


def asked_before(asked: TurnRequest) -> Message | None:
    """Return the question that the turn's message answers, None where it is a message by itself."""
    said = asked.task.history
    place = next((n for n, message in enumerate(said) if message.message_id == asked.message.message_id), 0)
    before = said[place - 1] if place else None
    if before is None or before.role != Role.ROLE_AGENT:
        return None
    return before if {INTERRUPT_ID, PAUSED} & before.metadata.fields.keys() else None


def ids_of(question: Message | None) -> list[str]:
    """Return the ids of what was asked, in its order."""
    metadata = MessageToDict(question.metadata) if question is not None else {}
    listed = metadata.get(INTERRUPTS) or [{"id": metadata.get(INTERRUPT_ID)}]
    return [str(each["id"]) for each in listed if each["id"]]
