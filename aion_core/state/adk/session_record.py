"""Stored form of an ADK session: its key, its revision, its own state and its events."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from google.adk.events.event import Event
from msgspec import Struct


class SessionKey(NamedTuple):
    """Key of an ADK session. `user_id` is the authenticated owner."""

    app_name: str
    user_id: str
    session_id: str


class Revision(NamedTuple):
    """Revision of a session: its number of events, and a random id (`made`) from its creation."""

    number: int
    made: str

    @property
    def marker(self) -> str:
        """The revision as a text, to store in ADK's session object."""
        return f"{self.number}.{self.made}"

    @classmethod
    def of(cls, marker: str) -> Self:
        """Parse a revision from its text."""
        number, _, made = marker.partition(".")
        return cls(int(number), made)


class SessionRecord(Struct, frozen=True):
    """Stored ADK session with its own state and the requested events, oldest event first."""

    key: SessionKey
    revision: Revision
    updated: float
    state: dict[str, Any]
    events: Sequence[Event] = ()
