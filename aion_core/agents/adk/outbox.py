"""Outbox that an agent's code sets in the state of its ADK session."""

from collections.abc import Sequence

from google.adk.events import Event

from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.protocol.types import Task

OUTBOX = "a2a_outbox"
OUTBOX_METADATA = "aion:outbox"
"""Key in an ADK event's metadata for the outbox."""


def outbox_of_event(event: Event) -> A2AOutbox | None:
    """Return the outbox of an ADK event; None if it has none. Raises AgentFailed for an invalid outbox."""
    given = event.actions.state_delta.get(OUTBOX)
    if given is None:
        given = (event.custom_metadata or {}).get(OUTBOX_METADATA)
    return outbox_of(given) if given is not None else None


def merged_outbox(outboxes: Sequence[A2AOutbox]) -> A2AOutbox | None:
    """Merge the outboxes of a turn into one: append their messages to its history, and merge their tasks in order."""
    if len(outboxes) < 2:
        return outboxes[0] if outboxes else None
    patch = Task()
    for outbox in outboxes:
        if outbox.message is not None:
            patch.history.append(outbox.message)
        elif outbox.task is not None:
            patch.MergeFrom(outbox.task)
    return A2AOutbox(task=patch)
