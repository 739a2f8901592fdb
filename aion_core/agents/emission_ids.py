"""Ids and idempotency keys of emissions. A turn that repeats an emission repeats its id and its key."""

import uuid

from aion_core.engine.agent import TurnRequest
from aion_core.protocol.reserved_keys import is_reserved
from aion_core.protocol.types import Artifact

REPLY = "reply:"
"""Prefix of the idempotency keys of durable replies."""

FINAL = "rest:"
"""Prefix of the idempotency keys of emissions at the end of a turn or at an interrupt."""

_IDS = uuid.UUID("5d3c9c5e-59a4-4a0f-9f0b-2f6d1c0f7e11")
"""UUID namespace for deterministic ids, so that a repeated emission gets the same id."""


def deterministic_id(*names: str) -> str:
    """Return a UUID derived from the names. The same names always give the same UUID."""
    return str(uuid.uuid5(_IDS, "\0".join(names)))


def final_key(request: TurnRequest, place: object) -> str:
    """Return the idempotency key of an emission at the end of the turn. `place` is its name or number there."""
    return f"{FINAL}{request.turn.id}/{place}"


def with_artifact_id(request: TurnRequest, given: Artifact) -> Artifact:
    """Return a copy of the artifact with an id.

    If the id is missing or reserved for the server, derive an id from the task and the artifact's name.
    """
    artifact = Artifact()
    artifact.CopyFrom(given)
    if not artifact.artifact_id or is_reserved(artifact.artifact_id):
        artifact.artifact_id = deterministic_id(request.task.id, artifact.name)
    return artifact
