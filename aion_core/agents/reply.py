"""What the answer of a turn is, of all that the turn left behind. Pure, and the same for both frameworks.

    response buffer  >  a2a_outbox  >  what the framework returned  >  what was streamed  >  what was emitted

(D5, D6, D7, R73, R74, R80-R82)
"""

import logging
from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict

from aion_core.authoring.types import A2AOutbox
from aion_core.ports import Emission, Emitted, Reply, Said
from aion_core.protocol.extensions import without_reserved_metadata
from aion_core.protocol.types import STREAM_DELTA_IDS, Message, Part, Role, Task, TaskState
from aion_core.tasks import lifecycle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Left:
    """What a turn has left behind, by who is heard first."""

    buffered: Message | None = None
    """The last durable reply that went through a helper: `thread.reply`, `message.reply`."""
    outbox: A2AOutbox | None = None
    """What the author returned as `a2a_outbox`, in this turn."""
    returned: Message | None = None
    """The last answer that the framework itself added in this turn."""
    spoken: str = ""
    """What the last model call of this turn streamed."""
    emitted: Message | None = None
    """The last message that was emitted on the way; it is the answer only where there is no other (D6)."""


def resolve(left: Left) -> list[Emission]:
    """Return what is still to be said, the last of it the Reply."""
    if left.buffered is not None and left.outbox is not None:
        logger.warning("The turn has both a reply and an a2a_outbox: the reply is the answer (D5).")
    if left.outbox is not None and left.outbox.task is not None:
        return _patch(left.outbox.task, left.buffered)
    if left.buffered is not None:
        return [Reply(left.buffered)]
    if left.outbox is not None and left.outbox.message is not None:
        return [Reply(without_reserved_metadata(left.outbox.message))]
    if left.returned is not None:
        return [Reply(left.returned)]
    if left.spoken:
        return [Reply(Message(role=Role.ROLE_AGENT, parts=[Part(text=left.spoken)]))]
    return [Reply(left.emitted)]


def _patch(task: Task, buffered: Message | None) -> list[Emission]:
    """Return an outbox Task as what it adds to the server's: its artifacts, messages, metadata and end (R78).

    Its ids are ignored (R75). Its status message is the answer, else the last message of its history; where a reply
    was buffered that is the answer, and the messages are left out (D5).
    """
    patch = without_reserved_metadata(task)
    said = [message for message in patch.history if message.role != Role.ROLE_USER]
    if patch.status.HasField("message"):
        said.append(patch.status.message)
    answer = buffered or (said[-1] if said else None)
    before = [] if buffered is not None else said[:-1]
    state = patch.status.state if patch.status.state in _ENDS else TaskState.TASK_STATE_COMPLETED
    return [
        # A stream delta is a preview, and no part of a task (R62).
        *(Emitted(artifact) for artifact in patch.artifacts if artifact.artifact_id not in STREAM_DELTA_IDS),
        *(Said(message) for message in before),
        Reply(answer, state, MessageToDict(patch.metadata)),
    ]


_ENDS = lifecycle.RESTING
"""How an author's Task may say that the turn ended; an outbox Task that says FAILED ends FAILED."""
