"""Tool calls of a model's message that are held together: some wait, and the results of the others are kept for them.

ADK stores the results of a message's calls in one event, when all have one. If some of them wait, the results of the
others are stored in the metadata of an event without content. When the turn goes on, ADK finds the message's calls
without results and makes them again: then the kept results stand in for the calls that had ended.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types as genai
from msgspec import Struct

_HELD = "aion:heldCalls"
"""Key in an event's metadata for the held calls."""


class KeptResult(Struct, frozen=True):
    """Result of a tool call that has ended, while another call of its message waits."""

    response: dict[str, Any] | None
    """ADK's FunctionResponse as JSON; None if the tool gives no response yet, as a long-running one."""
    actions: dict[str, Any]
    """ADK's EventActions of the tool, as JSON."""

    def restore(self, actions: EventActions) -> None:
        """Set what the tool has set."""
        kept = EventActions.model_validate_json(json.dumps(self.actions))
        for name in kept.model_fields_set:
            setattr(actions, name, getattr(kept, name))

    @property
    def value(self) -> dict[str, Any]:
        """Response for the model; empty if there is none."""
        return dict((self.response or {}).get("response") or {})

    def function_response(self) -> genai.FunctionResponse | None:
        """Return ADK's FunctionResponse."""
        if self.response is None:
            return None
        return genai.FunctionResponse.model_validate_json(json.dumps(self.response))


class HeldCalls(Struct, frozen=True):
    """Held calls of one message."""

    waiting: frozenset[str]
    """Ids of the calls that wait, or for which a remote agent asks the client."""
    results: dict[str, KeptResult]
    """Results of the message's other calls, by id."""

    @property
    def ids(self) -> set[str]:
        """Ids of all calls of the message."""
        return {*self.waiting, *self.results}


def kept_result(response: genai.FunctionResponse | None, actions: EventActions) -> KeptResult:
    """Return the result of a tool call."""
    return KeptResult(
        response.model_dump(mode="json", exclude_none=True) if response is not None else None,
        actions.model_dump(mode="json", exclude_defaults=True),
    )


def held_event(held: HeldCalls, template: Event) -> Event:
    """Return the event that stores the held calls, for the author and branch of the model's message `template`."""
    return Event(
        invocation_id=template.invocation_id,
        author=template.author,
        branch=template.branch,
        isolation_scope=template.isolation_scope,
        custom_metadata={_HELD: msgspec.to_builtins(held)},
    )


def is_held(event: Event) -> bool:
    """Return True for an event that stores held calls."""
    return _HELD in (event.custom_metadata or {})


def take_held(session: Session) -> list[HeldCalls]:
    """Remove the events of held calls from the session object. Return the held calls that still wait.

    ADK finds the calls that it has to make again by the session's last event.
    """
    events = session.events
    if not any(map(is_held, events)):
        return []
    held = [msgspec.convert((event.custom_metadata or {})[_HELD], HeldCalls) for event in events if is_held(event)]
    answered = {response.id for event in events for response in event.get_function_responses()}
    session.events[:] = [event for event in events if not is_held(event)]
    # A call that waited again is held again: its last event counts.
    last = {each: found for found in held for each in found.waiting}
    return [found for found in held if not answered & found.ids and all(last[each] is found for each in found.waiting)]


def hide_long_running(events: Iterable[Event], ids: Collection[str]) -> dict[str, set[str]]:
    """Let these calls be no long-running ones: ADK would not make them again. Return what was hidden, by the event's id."""
    hidden = {}
    for event in events:
        if found := {each for each in event.long_running_tool_ids or () if each in ids}:
            hidden[event.id] = found
            event.long_running_tool_ids = {*(event.long_running_tool_ids or ())} - found
    return hidden


def show_long_running(events: Iterable[Event], hidden: Mapping[str, Collection[str]], ids: Collection[str]) -> set[str]:
    """Let the hidden calls among `ids` be long-running again. Return them."""
    shown: set[str] = set()
    for event in events:
        found = {each for each in hidden.get(event.id, ()) if each in ids}
        if found:
            event.long_running_tool_ids = {*(event.long_running_tool_ids or ()), *found}
            shown |= found
    return shown
