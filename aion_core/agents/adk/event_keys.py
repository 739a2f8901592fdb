"""Idempotency keys of ADK events."""

from typing import Any

from google.adk.events import Event


class EventKeys:
    """Idempotency keys of a turn's ADK events: the id of an event, with a number if other output had this id before.

    A custom agent may give several events the same id. A resumed turn translates the stored events in the same order,
    so each event gets the same key again.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, list[Any]] = {}

    def of(self, event: Event) -> str:
        """Return the key of the event. Chunks have the key of the next output with their id."""
        outputs = self._outputs.get(event.id, [])
        number = len(outputs)
        if not event.partial:
            output = event.content, event.output, event.actions.artifact_delta
            self._outputs[event.id] = outputs if output in outputs else [*outputs, output]
            number = self._outputs[event.id].index(output)
        return f"{event.id}#{number + 1}" if number else event.id
