"""What a turn's session stores: events with `a2a_outbox` out of the state, and kept with the event itself (R87, R88).

ADK's state is the session's: what lies there the next turn finds. So the outbox is taken out before the session stores
the event. It stays with the event itself, as its metadata, so that a turn whose process is lost still finds it.
"""

import copy
from collections.abc import Mapping
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from aion_core.authoring.types import A2AOutbox, outbox_of

OUTBOX = "a2a_outbox"
KEPT = "aion:outbox"
"""Under which key of an event's metadata the outbox lies."""


def outbox_in(event: Event) -> A2AOutbox | None:
    """Return the outbox that came with the event, None where none did; raises AgentFailed where it cannot be sent."""
    given = event.actions.state_delta.get(OUTBOX)
    if given is None:
        given = (event.custom_metadata or {}).get(KEPT)
    return outbox_of(given) if given is not None else None


class TurnSessions(BaseSessionService):
    """A turn's session service: it stores each event without its outbox in the state; all else is the given service's.

    The agent's configuration is in the state where nothing else is under the same key. It is not stored: it is always
    that of aion.yaml.
    """

    def __init__(self, sessions: BaseSessionService, configuration: Mapping[str, Any] | None = None) -> None:
        self._sessions, self._configuration = sessions, configuration or {}
        self._closed = False

    def close(self) -> None:
        """Store nothing more: the turn is over here, whatever its agent still does."""
        self._closed = True

    async def append_event(self, session: Session, event: Event) -> Event:
        """See `BaseSessionService.append_event`; raises AgentFailed where the outbox cannot be sent."""
        if self._closed:
            return event
        if not event.partial and OUTBOX in event.actions.state_delta:
            outbox = outbox_in(event)
            event.actions.state_delta = {
                key: value for key, value in event.actions.state_delta.items() if key != OUTBOX
            }
            # A tool that sets it has set it in the session at hand, too.
            session.state.pop(OUTBOX, None)
            if outbox is not None:
                kept = outbox.model_dump(mode="json", exclude_none=True)
                event.custom_metadata = {**(event.custom_metadata or {}), KEPT: kept}
        return await self._sessions.append_event(session, event)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """See `BaseSessionService.create_session`."""
        return await self._sessions.create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """See `BaseSessionService.get_session`."""
        session = await self._sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )
        if session is not None:
            for key, value in self._configuration.items():
                session.state.setdefault(key, copy.deepcopy(value))
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """See `BaseSessionService.list_sessions`."""
        return await self._sessions.list_sessions(app_name=app_name, user_id=user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `BaseSessionService.delete_session`."""
        await self._sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See `BaseSessionService.get_user_state`."""
        return await self._sessions.get_user_state(app_name=app_name, user_id=user_id)

    async def flush(self) -> None:
        """See `BaseSessionService.flush`."""
        await self._sessions.flush()
