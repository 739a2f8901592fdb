"""Copy of an ADK session's events up to a message, as the session of another context."""

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, State

from aion_core.agents.adk.parts import a2a_parts, parts_of_event
from aion_core.errors import InvalidMessage
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Part
from aion_core.table.keys import ContextKey
from aion_tools.dev.console.stored_state.state import Fork

SHARED = (State.APP_PREFIX, State.USER_PREFIX)
"""Prefixes of the state that sessions share: the copied session has it already."""


async def forked_session(sessions: BaseSessionService, source: ContextKey, target: ContextKey, event_id: str) -> Fork:
    """Store the events of `source` before the turn of this event in the session of `target`.

    Return the message that began this turn, to be sent again. Raises InvalidMessage if the event is gone.
    """
    session = await sessions.get_session(app_name=source.agent, user_id=source.owner, session_id=source.context_id)
    events = session.events if session is not None else []
    place = next((place for place, event in enumerate(events) if event.id == event_id), None)
    if place is None:
        raise InvalidMessage("The context has no such event; it may have expired.", field="checkpointId")
    asked = max((at for at, event in enumerate(events[: place + 1]) if _is_message(event)), default=None)
    if asked is None:
        raise InvalidMessage("There is no message before this event.", field="checkpointId")
    forked = await sessions.create_session(app_name=target.agent, user_id=target.owner, session_id=target.context_id)
    for event in events[:asked]:
        await sessions.append_event(forked, _without_shared(event))
    return Fork(runs=True, parts=[to_json(part) for part in _parts(events[asked])])


def _is_message(event: Event) -> bool:
    """Return True for a client's message, and not for the result of a tool, which ADK stores as the user's, too."""
    return event.author == "user" and not event.get_function_responses() and bool(_parts(event))


def _parts(event: Event) -> list[Part]:
    return a2a_parts(parts_of_event(event))


def _without_shared(event: Event) -> Event:
    own = {key: value for key, value in event.actions.state_delta.items() if not key.startswith(SHARED)}
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": own})})
