"""What a call keeps of a remote agent's answer, within the limits of agents."""

from aion_core.agent_client.checked import Kept, size_of
from aion_core.agent_client.limits import OF_AGENTS
from aion_core.delegation.outcome import Outcome, is_transient_artifact, outcome_of
from aion_core.engine.task.projection import GrowingArtifact, is_only_text
from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED
from aion_core.protocol.types import StreamResponse

EVENT_BYTES = 4096
"""Bytes that are counted for a response that becomes an event of the caller's task, beside its content."""

SIGN_BYTES = 64
"""Bytes that are counted for a chunk of text, or a status that says only that the task goes on, beside its content."""


class KeptAnswer:
    """The responses of one call so far. They are counted, and kept only if the answer is to be stored."""

    def __init__(self, *, keeps_responses: bool) -> None:
        """Without `keeps_responses` the caller stores each response as an event of its own task."""
        self._keeps = keeps_responses
        self._size = Kept(OF_AGENTS.kept)
        self._responses: list[StreamResponse] = []
        self._growing: GrowingArtifact | None = None
        """Artifact of the last kept response, to which chunks of text are added."""

    def add(self, response: StreamResponse) -> None:
        """Count a response and keep it. Raises UnusableAnswer if the answer is too large."""
        artifact = response.artifact_update.artifact
        if is_transient_artifact(response):
            # The caller shows a streamed text until its message arrives whole.
            self._size.put("streamed", response.artifact_update.ByteSize() + SIGN_BYTES, append=True)
        elif _is_sign_of_life(response):
            self._size.put("signs of life", SIGN_BYTES, append=True)
        elif _is_text_chunk(response):
            self._size.put("", 4 * sum(part.ByteSize() for part in artifact.parts) + SIGN_BYTES, append=True)
            if self._growing is not None and self._growing.artifact.artifact_id == artifact.artifact_id:
                self._growing.add(artifact.parts)
            else:
                self._append(response)
        else:
            self._size.put("streamed", 0)
            self._size.put("", size_of(response) + (0 if self._keeps else EVENT_BYTES), append=True)
            self._append(response)

    @property
    def outcome(self) -> Outcome:
        """Return the answer, after the last response."""
        self._end_artifact()
        return outcome_of(self._responses)

    def _append(self, response: StreamResponse) -> None:
        self._end_artifact()
        if self._keeps:
            self._responses.append(response)
            artifact = response.artifact_update.artifact
            self._growing = GrowingArtifact(artifact) if response.HasField("artifact_update") else None

    def _end_artifact(self) -> None:
        if self._growing is not None:
            self._growing.write()
            self._growing = None


def _is_text_chunk(response: StreamResponse) -> bool:
    """Return True for further text of an artifact."""
    update = response.artifact_update
    is_more = update.append and not update.HasField("metadata") and not update.artifact.HasField("metadata")
    return is_more and all(map(is_only_text, update.artifact.parts))


def _is_sign_of_life(response: StreamResponse) -> bool:
    """Return True for a status that says only that the task goes on."""
    update = response.status_update
    goes_on = response.HasField("status_update") and update.status.state not in TERMINAL_OR_INTERRUPTED
    return goes_on and not update.status.HasField("message") and not update.HasField("metadata")
