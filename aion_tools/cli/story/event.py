"""One event of a task's story."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One event of a task's story."""

    at: datetime | None
    """Time of the event; None if it is unknown."""
    kind: str
    """`message`, `status`, `artifact`, `turn`, `step`, `takeover`, `handoff`, `push`, `invocation`, `warning` or `error`."""
    text: str
    details: dict[str, Any] = field(default_factory=dict)
    """Numbers and names of the sentence, in a form for programs."""

    def document(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"at": self.at.isoformat() if self.at else None, "kind": self.kind, "text": self.text, **self.details}
