"""ADK session service over stored records."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from aion_core.ports import Clock
from aion_core.sessions.serialization import plain_state

# ── State ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ScopedState:
    """State, or a change of state, by ADK's scopes; keys have no prefix `app:` or `user:`."""

    app: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)


def split_state(state: Mapping[str, Any]) -> ScopedState:
    """Return the state by scope, without the state of the invocation (`temp:`)."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    session: dict[str, Any] = {}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            session[key] = value
    return ScopedState(app, user, session)


def merge_state(state: ScopedState) -> dict[str, Any]:
    """Return the state as one mapping with the scopes' prefixes, as in an ADK session."""
    return {
        **state.session,
        **{State.APP_PREFIX + key: value for key, value in state.app.items()},
        **{State.USER_PREFIX + key: value for key, value in state.user.items()},
    }


# ── Sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class SessionKey(NamedTuple):
    """Key of a session; `user_id` is the authenticated owner."""

    app_name: str
    user_id: str
    session_id: str


class Revision(NamedTuple):
    """Number of events of a session; `made` is a random id of the session, different after a delete and create."""

    number: int
    made: str

    @property
    def marker(self) -> str:
        """The revision as a string for ADK's session object."""
        return f"{self.number}.{self.made}"

    @classmethod
    def of(cls, marker: str) -> Self:
        """Return the revision from its string."""
        number, _, made = marker.partition(".")
        return cls(int(number), made)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Stored session with its own state and the requested events, oldest first."""

    key: SessionKey
    revision: Revision
    updated: float
    state: dict[str, Any]
    events: Sequence[Event] = ()


class StoredSessions(BaseSessionService):
    """ADK's session service for one turn.

    It decides three cases left open by ADK. A repeated append of the same event stores nothing. An append raises
    StaleSessionError if the stored session has another revision than the session object, or was deleted and created
    again. A listing requires a user: a listing across users would have no owner.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Parallel branches share one session object, and each append needs the revision of the append before it.
        self._append_lock = asyncio.Lock()

    # ── ADK's methods ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a new session; a missing id is generated. Raises AlreadyExistsError or UnserializableSession."""
        key = SessionKey(app_name, user_id, session_id or str(uuid4()))
        own = _plain(split_state(state or {}))
        made = SessionRecord(key, Revision(0, uuid4().hex), self._clock.now().timestamp(), dict(own.session))
        await self._make(made, own)
        return _session(made, await self._shared(app_name, user_id))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session with the events requested by the config, or None."""
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
            raise NotImplementedError("Sessions are listed by user: user_id is required.")
        records, shared = await asyncio.gather(self._all(app_name, user_id), self._shared(app_name, user_id))
        records = sorted(records, key=lambda record: (record.updated, record.key.session_id))
        return ListSessionsResponse(sessions=[_session(record, shared) for record in records])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the session with its state and events, if it exists; keep the state of the user and the app."""
        await self._delete(SessionKey(app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state, without the prefix `user:`."""
        return dict((await self._shared(app_name, user_id)).user)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event and its state changes atomically, then add the event to the session object.

        A partial event is not stored. Raises StaleSessionError, SessionNotFoundError or UnserializableSession without
        storing anything.
        """
        if event.partial:
            return event
        async with self._append_lock:
            if any(event is known or event == known for known in session.events if known.id == event.id):
                return event
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            key = SessionKey(session.app_name, session.user_id, session.id)
            known = await self._known(key, session)
            revision = await self._append(key, known, event, _plain(split_state(event.actions.state_delta)))
            session.last_update_time = event.timestamp
            session._storage_update_marker = revision.marker
            return self._commit_event_to_session(session, event)

    async def _known(self, key: SessionKey, session: Session) -> Revision:
        """Return the revision of the session object."""
        if session._storage_update_marker is not None:
            return Revision.of(session._storage_update_marker)
        # Another service read the object: its last event must be the last stored event.
        record = await self._read(key, newest=1)
        if record is None:
            raise not_found(key)
        if [event.id for event in record.events] != [event.id for event in session.events[-1:]]:
            raise stale()
        return record.revision

    # ── Methods of a store ────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _make(self, record: SessionRecord, state: ScopedState) -> None:
        """Store a new session and the state atomically; raises AlreadyExistsError."""

    @abstractmethod
    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        """Return the session, if it exists, with the newest events, or with all events for `newest=None`."""

    @abstractmethod
    async def _shared(self, app_name: str, user_id: str) -> ScopedState:
        """Return the shared state of the user's sessions; its `session` is empty."""

    @abstractmethod
    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        """Return the user's sessions, without events."""

    @abstractmethod
    async def _delete(self, key: SessionKey) -> None:
        """Delete the session if it exists."""

    @abstractmethod
    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: ScopedState) -> Revision:
        """Store the event after revision `known` and the state changes, atomically; return the new revision.

        If the same event is stored there already, change nothing. Raises StaleSessionError for another event, and
        SessionNotFoundError for a missing session.
        """


def stale() -> StaleSessionError:
    """Return the error for a session changed since it was read."""
    return StaleSessionError("The session has been changed since it was read. Read it again before you append to it.")


def not_found(key: SessionKey) -> SessionNotFoundError:
    """Return the error for a missing session."""
    return SessionNotFoundError(f"There is no session {key.session_id!r}. Create it before you append to it.")


def _plain(state: ScopedState) -> ScopedState:
    return ScopedState(plain_state(state.app), plain_state(state.user), plain_state(state.session))


def _session(record: SessionRecord, shared: ScopedState) -> Session:
    session = Session(
        id=record.key.session_id,
        app_name=record.key.app_name,
        user_id=record.key.user_id,
        state=merge_state(ScopedState(shared.app, shared.user, record.state)),
        events=list(record.events),
        last_update_time=record.updated,
    )
    session._storage_update_marker = record.revision.marker
    return session


def _since(events: list[Event], timestamp: float) -> list[Event]:
    """Return the events after the last event before the timestamp."""
    earlier = [index for index, event in enumerate(events) if event.timestamp < timestamp]
    return events[earlier[-1] + 1 :] if earlier else events
