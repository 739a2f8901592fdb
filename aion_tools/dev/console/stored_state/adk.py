"""Stored state of a context's ADK session: its state and its newest events as plain JSON."""

from datetime import UTC, datetime

from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from aion_core.table.keys import ContextKey
from aion_tools.dev.console.stored_state.readable_json import readable_json
from aion_tools.dev.console.stored_state.state import StateEntry, StoredState


async def stored_session(sessions: BaseSessionService, context: ContextKey, *, limit: int) -> StoredState | None:
    """Return the state and the newest `limit` events of a context's session; None without a session."""
    session = await sessions.get_session(
        app_name=context.agent,
        user_id=context.owner,
        session_id=context.context_id,
        config=GetSessionConfig(num_recent_events=limit),
    )
    if session is None:
        return None
    entries = [_entry(event) for event in reversed(session.events)]
    return StoredState("ADK session", session.id, readable_json(session.state), entries)


def _entry(event: Event) -> StateEntry:
    calls = [f"calls {each.name}" for each in event.get_function_calls()]
    results = [f"result of {each.name}" for each in event.get_function_responses()]
    label = ", ".join([event.author, *calls, *results])
    content = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return StateEntry(event.id, label, datetime.fromtimestamp(event.timestamp, UTC).isoformat(), content)
