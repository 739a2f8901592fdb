"""Progress of the invocation that a turn runs, kept up to date by each stored event."""

from collections.abc import Sequence

from google.adk.events import Event
from google.adk.workflow import BaseNode

from aion_core.agents.adk.resumption import InvocationProgress
from aion_core.agents.adk.rewind import turn_of


class RunningInvocation:
    """Invocation of a running turn. Each stored event is read once.

    It may include events of earlier turns, because an answer continues the invocation of an earlier turn. The session
    object is no source for it: while ADK runs a node, the object also has events that are not stored.
    """

    def __init__(self, root: BaseNode, turn_id: str) -> None:
        self._root, self._turn_id = root, turn_id
        self._events: list[Event] = []
        self._ids: set[str] = set()
        self.progress = InvocationProgress(root)
        """Progress after the last stored event."""

    def begin(self, events: Sequence[Event]) -> None:
        """Read the events of the session that the turn begins with."""
        self._events = list(events)
        self._ids = {event.invocation_id for event in events if turn_of(event) == self._turn_id}
        self._read_again()

    def add(self, event: Event) -> None:
        """Read the next stored event."""
        self._events.append(event)
        if turn_of(event) == self._turn_id and event.invocation_id not in self._ids:
            self._ids.add(event.invocation_id)
            self._read_again()
        elif event.invocation_id in self._ids:
            self.progress.add(event)

    def _read_again(self) -> None:
        self.progress = InvocationProgress(
            self._root, (event for event in self._events if event.invocation_id in self._ids)
        )
