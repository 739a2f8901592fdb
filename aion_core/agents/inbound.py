"""Input of a turn for every framework: context, inbox, conversation history, and the question that it answers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aion_core.authoring.context import AgentIdentity, AionContext, Event, ReplySink, Thread, User
from aion_core.authoring.context import Message as ThreadMessage
from aion_core.authoring.types import A2AInbox
from aion_core.engine.agent import TurnRequest
from aion_core.engine.resume_input import INTERRUPTS
from aion_core.errors import InvalidMessage
from aion_core.protocol.aion.extensions import Inbound, InboundEvent, answer_to, read
from aion_core.protocol.message_rules import (
    ALLOWED_SKILLS,
    ANY_FILE,
    INTERRUPT_ID,
    NO_AION_EXTENSIONS,
    type_of,
    without_reserved_keys,
)
from aion_core.protocol.types import Message, Part, Role, to_json, with_integers

logger = logging.getLogger(__name__)

T = TypeVar("T")

# ── Context and inbox ─────────────────────────────────────────────────────────────────────────────────────────────────

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
    """Return the contents of the Aion extensions in a turn's message and metadata; empty if they are invalid."""
    if NO_AION_EXTENSIONS in request.request:
        return Inbound()
    try:
        return read(request.message, request.request)
    except InvalidMessage as error:
        # Ignore the extensions and treat the request as a plain message. Its extensions can be invalid only if an
        # earlier version of aion stored the request, because the server checks new requests on receipt.
        logger.warning("%s It is taken for a message.", error, extra={"task_id": request.task.id})
        return Inbound()


def text_of(request: TurnRequest) -> str:
    """Return the text parts of the turn's message, joined in order."""
    return "".join(part.text for part in request.message.parts if part.WhichOneof("content") == "text")


def empty_file_text(part: Part) -> str:
    """Return a text for the model about a file of zero bytes, "" for other parts: models refuse an empty file."""
    is_empty = part.WhichOneof("content") == "raw" and not part.raw
    return f"[empty file: {part.filename or type_of(part) or ANY_FILE}]" if is_empty else ""


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


# ── Question that the message answers ─────────────────────────────────────────────────────────────────────────────────

PAUSED_BEFORE = "pausedBefore"
"""Metadata key of a question for the names of the nodes at a graph's static breakpoint."""


QUESTION_EXPIRED = (
    "The agent can no longer use this answer: its state at the question has expired, or was deleted. Send the task's first "
    "message again with a new id."
)
"""Reason of AgentFailed for an answer to a question whose checkpoint or session no longer exists."""


class InvalidResumeInput(ValueError):
    """Error: the pending interrupt does not accept the client's answer. The text names the accepted answers."""


def answered_question(request: TurnRequest) -> Message | None:
    """Return the agent's question that the turn's message answers; None if the message answers no question."""
    history = request.task.history
    place = next((n for n, message in enumerate(history) if message.message_id == request.message.message_id), 0)
    before = history[place - 1] if place else None
    if before is None or before.role != Role.ROLE_AGENT:
        return None
    return before if {INTERRUPT_ID, PAUSED_BEFORE} & before.metadata.fields.keys() else None


def accepted_answers(
    answers: Mapping[str, Any], pending: Mapping[str, T], convert: Callable[[T, Any], Any]
) -> tuple[dict[str, Any], str]:
    """Return the converted answers to pending interrupts by id, and the reason for refusing the others, "" if none.

    `convert` returns the form of an answer that the interrupt accepts, or raises InvalidResumeInput. Raises
    InvalidResumeInput if no answer is accepted. An answer to an interrupt that is no longer pending was accepted by an
    earlier try of the turn.
    """
    accepted: dict[str, Any] = {}
    rejection: InvalidResumeInput | None = None
    for name, interrupt in pending.items():
        if name in answers:
            try:
                accepted[name] = convert(interrupt, answers[name])
            except InvalidResumeInput as error:
                rejection = rejection or error
    if rejection is not None and not accepted and answers.keys() <= pending.keys():
        raise rejection
    return accepted, str(rejection or "")


def interrupt_ids(question: Message | None) -> list[str]:
    """Return the ids of the interrupts in an agent's question, in the order of the question."""
    metadata = to_json(question.metadata) if question is not None else {}
    listed = metadata.get(INTERRUPTS) or [{"id": metadata.get(INTERRUPT_ID)}]
    return [str(each["id"]) for each in listed if each["id"]]


# ── Conversation history ──────────────────────────────────────────────────────────────────────────────────────────────


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
