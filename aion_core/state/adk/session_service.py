"""Rules of ADK's session service. A subclass stores the sessions."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from aion_core.clock import Clock
from aion_core.state.adk.scoped_state import ScopedState, merge_state, plain_scopes, split_state
from aion_core.state.adk.session_record import Revision, SessionKey, SessionRecord


class StoredSessions(BaseSessionService):
    """ADK's session service for one turn.

    It decides three cases that ADK leaves open. A repeated append of the same event stores nothing. An append raises
    StaleSessionError if the stored session has another revision than the session object, or was deleted and created
    again. A list of sessions requires a user, because every read must have an owner.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Serialise appends, because parallel branches share one session object and each append needs the revision after
        # the append before.
        self._append_lock = asyncio.Lock()

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a new session. Generate its id if missing. Raises AlreadyExistsError or UnserializableSession."""
        key = SessionKey(app_name, user_id, session_id or str(uuid4()))
        own = plain_scopes(split_state(state or {}))
        made = SessionRecord(key, Revision(0, uuid4().hex), self._clock.now().timestamp(), dict(own.session))
        await self._make(made, own)
        return _session(made, await self._shared(app_name, user_id))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session with the events that the config requests, or None if the session does not exist."""
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
        """Return the user's sessions without their events, sorted by the time of the last change."""
        if user_id is None:
            raise NotImplementedError("Sessions are listed by user: user_id is required.")
        records, shared = await asyncio.gather(self._all(app_name, user_id), self._shared(app_name, user_id))
        records = sorted(records, key=lambda record: (record.updated, record.key.session_id))
        return ListSessionsResponse(sessions=[_session(record, shared) for record in records])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the session with its state and events, if it exists. The state of the user and the app remains."""
        await self._delete(SessionKey(app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that the user's sessions with the app share. Its keys have no prefix `user:`."""
        return dict((await self._shared(app_name, user_id)).user)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event and its state changes atomically, then add the event to the session object.

        A partial event is not stored. If StaleSessionError, SessionNotFoundError or UnserializableSession is raised,
        nothing is stored.
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
            revision = await self._append(key, known, event, plain_scopes(split_state(event.actions.state_delta)))
            session.last_update_time = event.timestamp
            session._storage_update_marker = revision.marker
            return self._commit_event_to_session(session, event)

    async def _known(self, key: SessionKey, session: Session) -> Revision:
        """Return the session object's revision. If another service made the object, read the stored revision."""
        if session._storage_update_marker is not None:
            return Revision.of(session._storage_update_marker)
        # The object has no revision, because another session service made it. So compare its last event with the last
        # stored event, to find out if the stored session has changed.
        record = await self._read(key, newest=1)
        if record is None:
            raise not_found(key)
        if [event.id for event in record.events] != [event.id for event in session.events[-1:]]:
            raise stale()
        return record.revision

    @abstractmethod
    async def _make(self, record: SessionRecord, state: ScopedState) -> None:
        """Store a new session and its shared state atomically. Raises AlreadyExistsError."""

    @abstractmethod
    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        """Return the session with its newest events (all if `newest` is None), or None for a missing session."""

    @abstractmethod
    async def _shared(self, app_name: str, user_id: str) -> ScopedState:
        """Return the shared state of the user and the app. The field `session` is empty."""

    @abstractmethod
    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        """Return all sessions of the user with the app, without events."""

    @abstractmethod
    async def _delete(self, key: SessionKey) -> None:
        """Delete the session if it exists."""

    @abstractmethod
    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: ScopedState) -> Revision:
        """Store the event and its state changes atomically after revision `known`. Return the new revision.

        If the same event is already stored after `known`, change nothing. Raises StaleSessionError if another event is
        stored after `known`, and SessionNotFoundError if the session is missing.
        """


def stale() -> StaleSessionError:
    """Return the error for an append to a session that has changed since it was read."""
    return StaleSessionError("The session has been changed since it was read. Read it again before you append to it.")


def not_found(key: SessionKey) -> SessionNotFoundError:
    """Return the error for an append to a missing session."""
    return SessionNotFoundError(f"There is no session {key.session_id!r}. Create it before you append to it.")


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
    """Return the last events from the timestamp on, none of them older than it. `events` are in stored order."""
    earlier = [index for index, event in enumerate(events) if event.timestamp < timestamp]
    return events[earlier[-1] + 1 :] if earlier else events
