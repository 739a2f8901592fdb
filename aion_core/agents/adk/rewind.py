"""Rewinding of an ADK session to its state before a turn that starts over.

ADK's own rewind takes back a whole invocation, but the answer to a question continues the invocation of an earlier turn.
So this one takes back the events of a turn. As with ADK's, state of the user and of the app stays as it is.
"""

from collections.abc import Sequence
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions._rewind_utils import _NON_SESSION_STATE_PREFIXES

TURN = "aion:turn"
"""Key in an ADK event's metadata for the id of its turn. An answer continues the invocation of an earlier turn, so the
invocation's id does not identify the turn."""

REWOUND = "aion:rewound"
"""Key in an ADK event's metadata for the id of the turn whose earlier events this event takes back."""


def turn_of(event: Event) -> str:
    """Return the id of the turn that has stored the event; "" for an event that belongs to no turn."""
    return str((event.custom_metadata or {}).get(TURN, ""))


def rewound_turn(event: Event) -> str:
    """Return the id of the turn whose earlier events this event takes back; "" for any other event."""
    return str((event.custom_metadata or {}).get(REWOUND, ""))


def rewind_event(turn_id: str, events: Sequence[Event], artifact_delta: dict[str, int]) -> Event:
    """Return the event that takes back the turn's events and its changes of the session's state.

    `events` has all live events of the session, the turn's events last.
    """
    before: dict[str, Any] = {}
    changed: set[str] = set()
    for event in events:
        own = {key: value for key, value in event.actions.state_delta.items() if _is_own(key)}
        if turn_of(event) == turn_id:
            changed |= own.keys()
        else:
            before |= own
    return Event(
        author="user",
        custom_metadata={REWOUND: turn_id},
        actions=EventActions(
            state_delta={key: before.get(key) for key in sorted(changed)}, artifact_delta=artifact_delta
        ),
    )


def apply_rewinds(session: Session) -> dict[str, str]:
    """Remove from the session object the events that later ones take back, and the keys that this leaves empty.

    Return the ids of the turns, by the id of the event that took them back.
    """
    live: list[Event] = []
    rewound: dict[str, str] = {}
    for event in session.events:
        if turn_id := rewound_turn(event):
            rewound[event.id] = turn_id
            live = [each for each in live if turn_of(each) != turn_id]
            for key, value in event.actions.state_delta.items():
                if value is None and session.state.get(key) is None:
                    session.state.pop(key, None)
        else:
            live.append(event)
    if len(live) < len(session.events):
        session.events[:] = live
    return rewound


def _is_own(key: str) -> bool:
    return not key.startswith(_NON_SESSION_STATE_PREFIXES)
