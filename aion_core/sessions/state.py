"""Scopes of ADK's state: of an app, a user, a session, and an invocation, which is never stored. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.sessions.state import State


@dataclass(frozen=True, slots=True)
class Scoped:
    """State, or changes of state, by scope; without the prefixes `app:` and `user:`."""

    app: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)


def split(state: Mapping[str, Any]) -> Scoped:
    """Return the state by scope, without that of the invocation (`temp:`)."""
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
    return Scoped(app, user, session)


def merged(state: Scoped) -> dict[str, Any]:
    """Return the state as agents see it: one mapping, with the scopes' prefixes."""
    return {
        **state.session,
        **{State.APP_PREFIX + key: value for key, value in state.app.items()},
        **{State.USER_PREFIX + key: value for key, value in state.user.items()},
    }
