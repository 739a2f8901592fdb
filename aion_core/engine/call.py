"""Context of one A2A call."""

from msgspec import Struct, field

from aion_core.engine.process.background import BackgroundTurns
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.push_config import PushConfig
from aion_core.errors import ClientError


class CallContext(Struct, frozen=True):
    """Caller, agent, headers and deadline of one A2A call."""

    owner: str
    agent: str
    background: BackgroundTurns = field(default_factory=BackgroundTurns)
    """Turns that the call has started. The request's middleware waits for them."""
    deadline: Deadline = field(default_factory=Deadline)
    """Deadline of the process that handles the call."""
    idempotency_key: str = ""
    """The client's Idempotency-Key: identifies a repeat of a message without contextId."""
    last_event_id: str = ""
    """The client's Last-Event-ID, if it resumes a stream."""
    extensions: frozenset[str] = frozenset()
    """URIs of the extensions requested by the client; the agent may not support all of them."""
    caller: str = ""
    """The owner without its tenant, for rate limits: callers can choose tenants freely."""
    entrypoint_url: str = ""
    """Base URL of the HTTP entry point that received the call; "" if it is unknown."""
    is_buffered: bool = False
    """True if the client gets no part of the response before its end, and other calls wait meanwhile, as in `sam local`."""
    push: PushConfig | None = None
    """The push notification config of the message, if it has one."""
    start_refusal: ClientError | None = None
    """Why the message cannot start a turn, although it may answer a question; None if it can start one."""
    first_refusal: ClientError | None = None
    """Why the message cannot start the first turn of a context, whose state cannot supply what the message lacks."""
