"""Answer of a turn."""

import logging
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from aion_core.agents.emission_ids import deterministic_id, final_key, with_artifact_id
from aion_core.authoring.types import A2AOutbox
from aion_core.engine.agent import AgentArtifact, AgentMessage, Emission, Reply, TurnRequest
from aion_core.engine.task import states
from aion_core.protocol.message_json import to_json
from aion_core.protocol.reserved_keys import without_reserved_metadata
from aion_core.protocol.stream_artifacts import STREAM_DELTA_IDS
from aion_core.protocol.types import Message, Role, Task, TaskState

logger = logging.getLogger(__name__)


class TurnOutput(Struct, frozen=True):
    """Possible answers of a turn, in order of precedence. The first that is not None is the answer."""

    buffered: Message | None = None
    """Last durable reply sent with `thread.reply` or `message.reply`."""
    outbox: A2AOutbox | None = None
    """Outbox that the author's code has set as `a2a_outbox` in this turn."""
    returned: Message | None = None
    """Last answer that the framework's agent returned in this turn, such as a graph's last AIMessage."""
    streamed: Message | None = None
    """Streamed text of the turn's last model call."""
    output: Message | None = None
    """Other output of the agent, such as values of a graph's state."""
    emitted: Message | None = None
    """The turn's last intermediate message."""


def _closing_emissions(output: TurnOutput) -> list[Emission]:
    """Return the remaining emissions at the end of a turn, ending with the Reply."""
    if output.buffered is not None and output.outbox is not None:
        logger.warning("The turn has both a reply and an a2a_outbox: the reply is the answer.")
    if output.outbox is not None and output.outbox.task is not None:
        return _patch(output.outbox.task, output.buffered)
    if output.buffered is not None:
        return [Reply(output.buffered)]
    if output.outbox is not None and output.outbox.message is not None:
        return [Reply(without_reserved_metadata(output.outbox.message))]
    if output.returned is not None:
        return [Reply(output.returned)]
    return [Reply(output.streamed or output.output or output.emitted)]


def _patch(task: Task, buffered: Message | None) -> list[Emission]:
    """Return the emissions that merge an outbox Task into the server's task.

    They have the artifacts, messages, metadata and final state of the outbox Task, but not its ids. The answer is the
    status message of the outbox Task, else the last message of its history. If the author's code has sent a reply, the
    reply replaces all messages of the outbox Task.
    """
    patch = without_reserved_metadata(task)
    messages = [message for message in patch.history if message.role != Role.ROLE_USER]
    if patch.status.HasField("message"):
        messages.append(patch.status.message)
    answer = buffered or (messages[-1] if messages else None)
    before = [] if buffered is not None else messages[:-1]
    state = patch.status.state if patch.status.state in _FINAL_STATES else TaskState.TASK_STATE_COMPLETED
    return [
        # Skip stream deltas: they are previews of messages, not part of a task.
        *(AgentArtifact(artifact) for artifact in patch.artifacts if artifact.artifact_id not in STREAM_DELTA_IDS),
        *(AgentMessage(message) for message in before),
        Reply(answer, state, to_json(patch.metadata)),
    ]


_FINAL_STATES = states.TERMINAL_OR_INTERRUPTED
"""Final states that an author's outbox Task may set. Any other state becomes COMPLETED."""


def final_emissions(request: TurnRequest, output: TurnOutput) -> Iterator[Emission]:
    """Yield the remaining emissions at a turn's end, with idempotency keys and ids, ending with the Reply."""
    for place, emission in enumerate(_closing_emissions(output)):
        # Use deterministic keys and ids, because another process may repeat the end of the turn.
        if isinstance(emission, AgentArtifact):
            emission = replace(
                emission, artifact=with_artifact_id(request, emission.artifact), key=final_key(request, place)
            )
        elif isinstance(emission, AgentMessage):
            emission = replace(
                emission, message=_identified(request, emission.message, place), key=final_key(request, place)
            )
        elif isinstance(emission, Reply) and emission.message is not None:
            emission = replace(emission, message=_identified(request, emission.message, "answer"))
        yield emission


def _identified(request: TurnRequest, message: Message, name: object) -> Message:
    """Give a message without an id a deterministic id, so that a repeated end of the turn emits the same id."""
    if not message.message_id:
        message.message_id = deterministic_id(request.turn.id, str(name))
    return message
