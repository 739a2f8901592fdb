"""Reads of a session's items: its head, its state and its events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.state.adk.session_record import Revision, SessionKey, SessionRecord
from aion_core.table import keys
from aion_core.table.item import SORT, Item
from aion_core.table.reads import Reads
from aion_core.table.retries import jitter

FIRST_PAGE, LARGEST_PAGE = 100, 1000
"""Page sizes of a query of a session's items, newest first."""

READS = 5
"""Number of attempts to read a whole session. A query may see only a part of a transaction."""


class StoredSession(Struct, frozen=True):
    """Items of a session: its head (revision and times), its state and the requested events, oldest event first."""

    head: Item
    state: Item | None
    events: Sequence[Item]


class SessionRows:
    """Queries of the items of sessions."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def of_session(self, thread: str, *, newest: int | None) -> StoredSession | None:
        """Read a session's items with its newest events, or with all events if `newest` is None.

        Return None if the session does not exist. Raises StoreCorrupt if a part of it is missing.
        """
        for attempt in range(READS):
            found = await self._query(thread, newest=newest)
            if found is None:
                return None
            number = revision_of(found.head).number
            has_state = found.head["state_revision"] >= 0
            if len(found.events) == min(number, number if newest is None else newest) and has_state == bool(
                found.state
            ):
                return found
            await jitter(attempt)
        raise StoreCorrupt("A part of the session is missing.")

    def pages(
        self, thread: str, first: str, last: str, *, limit: int = FIRST_PAGE, **options: bool
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the session's items with sort keys from `first` to `last`, one list per request."""
        partition = keys.session_partition(thread)
        return self._reads.pages(partition, first, last, limit=limit, largest=LARGEST_PAGE, **options)

    async def _query(self, thread: str, *, newest: int | None) -> StoredSession | None:
        """Query a session's items once, without state of another revision. Return None if the session has expired."""
        head: Item | None = None
        state: Item | None = None
        events: list[Item] = []
        first = keys.event_sort(1) if newest != 0 else keys.HEAD
        limit = FIRST_PAGE if newest is None else newest + 2
        async with aclosing(self.pages(thread, first, keys.SESSION_STATE, limit=limit, newest_first=True)) as pages:
            async for page in pages:
                for item in page:
                    if item[SORT] == keys.SESSION_STATE:
                        state = item
                    elif item[SORT] == keys.HEAD:
                        head = item
                    elif head is None:
                        return None  # A deleted session has left this event.
                    # Ignore events with other numbers, because a deleted session with the same id may have left them.
                    elif len(events) != newest and item[SORT] == _next_older(head, events):
                        events.append(item)
                if head is None:
                    continue
                if not self._reads.lives(head):
                    return None
                if len(events) == newest:
                    break
        if head is None:
            return None
        if state is not None and (state["made"], state["revision"]) != (head["made"], head["state_revision"]):
            state = None
        return StoredSession(head, state, events[::-1])


def record_of(head: Item) -> SessionRecord:
    """Make the session's record, without state and events, from its head item."""
    key = SessionKey(head["app_name"], head["user_id"], head["session_id"])
    return SessionRecord(key, revision_of(head), float(head["updated"]), {})


def revision_of(head: Item) -> Revision:
    """Return the revision in a session's head item."""
    return Revision(head["revision"], head["made"])


def _next_older(head: Item, events: Sequence[Item]) -> str:
    """Return the sort key of the session's next older event. `events` has the events found so far, newest first."""
    return keys.event_sort(head["revision"] - len(events))
