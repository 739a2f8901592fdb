"""Decision on what answers a turn: a reply, the outbox, or else the agent's other output.

The adapter of each framework collects the turn's possible answers in a `TurnOutput`. Only this file decides which of
them is the answer. The form in which it goes out, as a message, an artifact or the task, is decided in
`aion_core.engine.answer`.
"""

import logging
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from aion_core.agents.emission_ids import deterministic_id, final_key, with_artifact_id
from aion_core.authoring.types import A2AOutbox
from aion_core.engine.agent import AgentArtifact, AgentMessage, Emission, Reply, TurnRequest
from aion_core.engine.task import states
from aion_core.engine.task.projection import with_message_once
from aion_core.protocol.message_json import to_json
from aion_core.protocol.reserved_keys import without_reserved_metadata
from aion_core.protocol.stream_artifacts import STREAM_DELTA_IDS
from aion_core.protocol.types import Artifact, Message, Part, Role, TaskState

logger = logging.getLogger(__name__)


class TurnOutput(Struct, frozen=True):
    """Possible answers of a turn, in order of precedence: replies, then the outbox, then the fallbacks.

    The first that is not None is the answer. None of them comes from an earlier turn.
    """

    buffered: Message | None = None
    """Last durable reply sent with `thread.reply` or `message.reply`."""
    outbox: A2AOutbox | None = None
    """Outbox that the author's code has set as `a2a_outbox` in this turn."""
    declared: Message | None = None
    """Values of the output that the author's code declares, such as a graph's output schema."""
    returned: Message | None = None
    """Last answer that the framework's agent returned in this turn, such as a graph's last AIMessage."""
    streamed: Message | None = None
    """Streamed text of the turn's last model call."""
    values: Part | None = None
    """Other values of the agent, as data: they follow the streamed text, or are the answer if the turn has no text."""
    emitted: Message | None = None
    """The turn's last intermediate message."""
    large_values: Artifact | None = None
    """In place of `values`, an artifact with values that are too large for a message."""

    def answer(self) -> Message | None:
        """Return the message that answers the turn, or None."""
        if self.buffered is not None:
            return self.buffered
        if self.outbox is not None:
            return next(reversed(_messages_in(self.outbox)), None)
        return self.declared or self.returned or self._with_values() or self.emitted

    def artifact(self) -> Artifact | None:
        """Return the artifact with the values that would belong to the answer if they were not too large."""
        return self.large_values if not self.is_decided() else None

    def is_decided(self) -> bool:
        """Return True if the answer does not depend on streamed text, values and intermediate messages."""
        before = (self.buffered, self.outbox, self.declared, self.returned)
        return before != (None, None, None, None)

    def _with_values(self) -> Message | None:
        if self.values is None:
            return self.streamed
        message = Message(role=Role.ROLE_AGENT)
        if self.streamed is not None:
            message.CopyFrom(self.streamed)
        message.parts.append(self.values)
        return message


def _messages_in(outbox: A2AOutbox) -> list[Message]:
    """Return copies of the agent's messages in an outbox. The last one is the outbox's answer."""
    if outbox.task is None:
        messages = [outbox.message] if outbox.message is not None else []
    else:
        # A task read from this server repeats its status message as the last of its history: take it once.
        history = with_message_once(outbox.task).history
        messages = [message for message in history if message.role != Role.ROLE_USER]
        messages += [outbox.task.status.message] if outbox.task.status.HasField("message") else []
    return [without_reserved_metadata(message) for message in messages]


def _closing_emissions(output: TurnOutput) -> list[Emission]:
    """Return the remaining emissions at the end of a turn, ending with the Reply.

    An outbox Task is merged into the server's task: its artifacts, messages, metadata and final state, but not its ids.
    If the author's code has sent a reply, the reply replaces all messages of the outbox.
    """
    outbox, answer = output.outbox, output.answer()
    if output.buffered is not None and outbox is not None:
        logger.warning("The turn has both a reply and an a2a_outbox: the reply is the answer.")
    if outbox is None or outbox.task is None:
        artifact = output.artifact()
        return [*([AgentArtifact(artifact)] if artifact is not None else []), Reply(answer)]
    patch = without_reserved_metadata(outbox.task)
    before = _messages_in(outbox)[:-1] if output.buffered is None else []
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
