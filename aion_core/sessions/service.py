"""ADK's session service over stored records: the checks of an append, and the state of each scope."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from aion_core.ports import Clock
from aion_core.sessions.state import Scoped, merged, split
from aion_core.sessions.stored import plain_state


class SessionKey(NamedTuple):
    """The name of a session; `user_id` is the authenticated owner's."""

    app_name: str
    user_id: str
    session_id: str


class Revision(NamedTuple):
    """The number of events of a session; `made` distinguishes it from an earlier session of the same name."""

    number: int
    made: str

    @property
    def marker(self) -> str:
        """The revision as ADK's session carries it."""
        return f"{self.number}.{self.made}"

    @classmethod
    def of(cls, marker: str) -> Self:
        """Return the revision of the marker."""
        number, _, made = marker.partition(".")
        return cls(int(number), made)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A stored session with its own state; `events` are the requested ones, oldest first."""

    key: SessionKey
    revision: Revision
    updated: float
    state: dict[str, Any]
    events: Sequence[Event] = ()


class StoredSessions(BaseSessionService):
    """ADK's session service for one turn.

    ADK leaves open: an event that was appended already is not appended again; an append raises StaleSessionError if the
    session has another revision than the given object, or was deleted and made again; sessions are listed of one user
    only, since a listing across users would have no owner.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Parallel branches share one session object, and each append starts from the revision of the one before.
        self._one_at_a_time = asyncio.Lock()

    # ── ADK's methods ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a new session, with a new id if none is given; raises AlreadyExistsError or Unserializable."""
        key = SessionKey(app_name, user_id, session_id or str(uuid4()))
        own = _plain(split(state or {}))
        made = SessionRecord(key, Revision(0, uuid4().hex), self._clock.now().timestamp(), dict(own.session))
        await self._make(made, own)
        return _session(made, await self._shared(app_name, user_id))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session with the events that the config asks for, None if there is no such session."""
        config = config or GetSessionConfig()
        record, shared = await asyncio.gather(
            self._read(SessionKey(app_name, user_id, session_id), newest=config.num_recent_events),
            self._shared(app_name, user_id),
        )
        if record is None:
            return None
        session = _session(record, shared)
        if config.after_timestamp is not None:
            session.events = _since(session.events, config.after_timestamp)
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the user's sessions without their events, by the time of their last change."""
        if user_id is None:
            raise NotImplementedError("Sessions are listed by user: user_id must name one.")
        records, shared = await asyncio.gather(self._all(app_name, user_id), self._shared(app_name, user_id))
        records = sorted(records, key=lambda record: (record.updated, record.key.session_id))
        return ListSessionsResponse(sessions=[_session(record, shared) for record in records])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the session, its state and its events, there or not; the state of the user and the app stays."""
        await self._delete(SessionKey(app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state, without the prefix `user:`."""
        return dict((await self._shared(app_name, user_id)).user)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event and its changes of the state, all or none, then add it to the session object.

        A partial event is not stored. Raises StaleSessionError, SessionNotFoundError or Unserializable; then nothing
        was stored.
        """
        if event.partial:
            return event
        async with self._one_at_a_time:
            if any(event is known or event == known for known in session.events if known.id == event.id):
                return event
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            key = SessionKey(session.app_name, session.user_id, session.id)
            known = await self._known(key, session)
            revision = await self._append(key, known, event, _plain(split(event.actions.state_delta)))
            session.last_update_time = event.timestamp
            session._storage_update_marker = revision.marker
            return self._commit_event_to_session(session, event)

    async def _known(self, key: SessionKey, session: Session) -> Revision:
        """Return the revision at which the session object was read."""
        if session._storage_update_marker is not None:
            return Revision.of(session._storage_update_marker)
        # The object was not read here: its last event has to be the last stored one.
        record = await self._read(key, newest=1)
        if record is None:
            raise not_found(key)
        if [event.id for event in record.events] != [event.id for event in session.events[-1:]]:
            raise stale()
        return record.revision

    # ── Methods of a store ────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _make(self, record: SessionRecord, state: Scoped) -> None:
        """Store a new session and the state, all or none; raises AlreadyExistsError."""

    @abstractmethod
    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        """Return the session with its newest events, all of them for None; None if there is no such session."""

    @abstractmethod
    async def _shared(self, app_name: str, user_id: str) -> Scoped:
        """Return the state that the user's sessions share; its `session` is empty."""

    @abstractmethod
    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        """Return the user's sessions, without events."""

    @abstractmethod
    async def _delete(self, key: SessionKey) -> None:
        """Delete the session, there or not."""

    @abstractmethod
    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: Scoped) -> Revision:
        """Store the event as the next after `known`, and the changes of the state, all or none; return its revision.

        Changes nothing if the event after `known` is this one already. Raises StaleSessionError if it is another,
        SessionNotFoundError if there is no session.
        """


def stale() -> StaleSessionError:
    """Return the error for a session that has been changed since it was read."""
    return StaleSessionError("The session has been changed since it was read. Read it again before you append to it.")


def not_found(key: SessionKey) -> SessionNotFoundError:
    """Return the error for a session that does not exist."""
    return SessionNotFoundError(f"There is no session {key.session_id!r}. Create it before you append to it.")


def _plain(state: Scoped) -> Scoped:
    return Scoped(plain_state(state.app), plain_state(state.user), plain_state(state.session))


def _session(record: SessionRecord, shared: Scoped) -> Session:
    session = Session(
        id=record.key.session_id,
        app_name=record.key.app_name,
        user_id=record.key.user_id,
        state=merged(Scoped(shared.app, shared.user, record.state)),
        events=list(record.events),
        last_update_time=record.updated,
    )
    session._storage_update_marker = record.revision.marker
    return session


def _since(events: list[Event], timestamp: float) -> list[Event]:
    """Return the events of that time and later: those after the last that is earlier."""
    earlier = [place for place, event in enumerate(events) if event.timestamp < timestamp]
    return events[earlier[-1] + 1 :] if earlier else events
