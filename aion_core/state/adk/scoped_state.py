"""State of ADK sessions, divided into the scopes of the app, the user and the session. Pure."""

from collections.abc import Mapping
from typing import Any

from google.adk.sessions.state import State
from msgspec import Struct, field

from aion_core.state.adk.serialization import plain_state


class ScopedState(Struct, frozen=True):
    """ADK state, or a change of the state, divided by scope. Its keys have no prefix `app:` or `user:`."""

    app: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)


def split_state(state: Mapping[str, Any]) -> ScopedState:
    """Divide ADK state by scope and remove the scopes' prefixes. Omit the state of one invocation (`temp:`)."""
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
    """Merge the state of all scopes into one mapping, with the scopes' prefixes, as in an ADK session."""
    return {
        **state.session,
        **{State.APP_PREFIX + key: value for key, value in state.app.items()},
        **{State.USER_PREFIX + key: value for key, value in state.user.items()},
    }


def plain_scopes(state: ScopedState) -> ScopedState:
    """Copy the state as plain data. Raises UnserializableSession if a value cannot be converted."""
    return ScopedState(plain_state(state.app), plain_state(state.user), plain_state(state.session))
