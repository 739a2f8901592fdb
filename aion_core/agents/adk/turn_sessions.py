"""ADK session service of a turn."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from aion_core.agents.adk.outbox import OUTBOX, OUTBOX_METADATA, outbox_of_event
from aion_core.agents.adk.rewind import apply_rewinds
from aion_core.agents.adk.waits.pauses import is_pause
from aion_core.state.adk.sessions import TableSessions

A2A_METADATA = "a2a_metadata"
"""Key of the request's metadata in `run_config.custom_metadata`, as in ADK's own A2A server."""


class TurnSessionService(BaseSessionService):
    """Session service of one turn that moves `a2a_outbox` from the session's state to the metadata of the ADK event.

    The session's state outlives the turn, so the next turn would send an outbox in the state a second time. The event's
    metadata is stored too, so the outbox is not lost if the process dies. The service also adds the agent's
    `configuration` from aion.yaml to the session's state, without replacing existing keys. The configuration is never
    stored. Sessions have no events that a rewind has taken back.
    """

    def __init__(
        self,
        sessions: BaseSessionService,
        configuration: Mapping[str, Any],
        stored: Callable[[Event], None],
        prepare: Callable[[Session], None],
    ) -> None:
        """Wrap a session service. Call `stored` with each event that it has stored, and `prepare` with each session."""
        self._sessions, self._configuration, self._stored, self._prepare = sessions, configuration, stored, prepare
        self._closed = False
        self._kept: Session | None = None
        self.rewound: dict[str, str] = {}
        """Ids of the turns that have started over, by the id of the event that took them back."""

    def keep(self, session: Session) -> None:
        """Return this session object from the next `get_session` for all its events, instead of a second read.

        The caller must hold the turn's lease, so that no other process changes the session before.
        """
        self._kept = session

    def close(self) -> None:
        """Ignore all later events, because the turn has ended here although the agent may still be running."""
        self._closed = True

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event, with its outbox in the metadata. See `BaseSessionService.append_event`.

        Raises AgentFailed for an invalid outbox.
        """
        if self._closed or is_pause(event):
            return event
        if event.author != "user" and event.custom_metadata:
            # Store the request's metadata once, with its message. ADK adds it to each event.
            event.custom_metadata = {key: value for key, value in event.custom_metadata.items() if key != A2A_METADATA}
        if not event.partial and OUTBOX in event.actions.state_delta:
            outbox = outbox_of_event(event)
            event.actions.state_delta = {
                key: value for key, value in event.actions.state_delta.items() if key != OUTBOX
            }
            # Remove the outbox that a tool has set in the session object.
            session.state.pop(OUTBOX, None)
            if outbox is not None:
                stored = outbox.model_dump(mode="json", exclude_none=True)
                event.custom_metadata = {**(event.custom_metadata or {}), OUTBOX_METADATA: stored}
        appended = await self._sessions.append_event(session, event)
        if not event.partial:
            self._stored(appended)
        return appended

    async def renew(self, session: Session) -> None:
        """Renew the session's TTL, if the wrapped session service is aion's."""
        if isinstance(self._sessions, TableSessions):
            await self._sessions.renew(session)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session in the wrapped session service. See `BaseSessionService.create_session`."""
        return await self._sessions.create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session as `prepare` leaves it. See `BaseSessionService.get_session`."""
        kept, self._kept = self._kept, None
        if kept and config is None and (kept.app_name, kept.user_id, kept.id) == (app_name, user_id, session_id):
            return kept
        session = await self._sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )
        if session is not None:
            self.prepare(session)
        return session

    def prepare(self, session: Session) -> None:
        """Remove what rewinds have taken back from a stored session, and what it holds for calls that wait.

        Add the configuration to its state.
        """
        self.rewound |= apply_rewinds(session)
        self._prepare(session)
        for key, value in self._configuration.items():
            session.state.setdefault(key, copy.deepcopy(value))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List the sessions of the wrapped session service. See `BaseSessionService.list_sessions`."""
        return await self._sessions.list_sessions(app_name=app_name, user_id=user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session of the wrapped session service. See `BaseSessionService.delete_session`."""
        await self._sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user state of the wrapped session service. See `BaseSessionService.get_user_state`."""
        return await self._sessions.get_user_state(app_name=app_name, user_id=user_id)

    async def flush(self) -> None:
        """Flush the wrapped session service. See `BaseSessionService.flush`."""
        await self._sessions.flush()
