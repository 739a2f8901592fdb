"""Function calls that a canceled or failed ADK turn has left open."""

from collections.abc import Callable, Sequence

from google.adk.events import Event
from google.genai import types as genai

from aion_core.agents.adk.pending_calls import ABORTED, pending_calls
from aion_core.agents.adk.waits.held_calls import KeptResult

Kept = Callable[[str], KeptResult | None]
"""Function that returns the kept result of a call by its id."""


def canceled_responses(events: Sequence[Event], kept: Kept = lambda _: None) -> list[Event]:
    """Return events with the response "canceled" for each function call that a canceled or failed turn left open.

    Without these responses, models would reject the conversation, and the client can no longer answer these calls. A
    call to an agent in task mode stays open if that agent waits for the user's next message. `kept` returns the result
    of a call that had ended while another call of its message waited: this result is the response.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    pending, waiting = {each.id for each in pending_calls(events)}, _waiting_tasks(events)
    responses = []
    for event in events:
        calls = [
            call for call in event.get_function_calls() if call.id and (call.id not in answered or call.id in pending)
        ]
        # Skip an event with a call to a waiting agent in task mode, because ADK starts the event's other agents in task
        # mode only after that agent.
        if calls and not waiting.intersection(call.id for call in calls):
            parts = [genai.Part(function_response=_response(call, kept)) for call in calls]
            responses.append(
                Event(
                    invocation_id=event.invocation_id,
                    author=event.author,
                    branch=event.branch,
                    isolation_scope=event.isolation_scope,
                    content=genai.Content(role="user", parts=parts),
                    error_code=ABORTED,
                    error_message="canceled",
                )
            )
    return responses


def _waiting_tasks(events: Sequence[Event]) -> set[str | None]:
    """Return the ids of the calls to agents in task mode that wait for the user, directly or through an inner agent.

    ADK gives each event of such an agent the id of its call as `isolation_scope`. The agent waits for the user if its
    last event is a final response.
    """
    last = {event.isolation_scope: event for event in events if event.content is not None or event.error_code}
    waiting: set[str | None] = {
        scope
        for scope, event in last.items()
        if scope and event.author != "user" and event.content is not None and event.is_final_response()
    }
    while more := {
        scope
        for scope, event in last.items()
        if scope and scope not in waiting and waiting.intersection(call.id for call in event.get_function_calls())
    }:
        waiting |= more
    return waiting


def _response(call: genai.FunctionCall, kept: Kept) -> genai.FunctionResponse:
    result = kept(call.id or "")
    response = result.function_response() if result is not None else None
    return response or genai.FunctionResponse(id=call.id, name=call.name, response={"error": "canceled"})
