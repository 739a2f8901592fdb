"""Answers to a remote agent's request for a credential, in the form in which ADK passes them on. Pure."""

from collections.abc import Sequence

from google.adk.events import Event

from aion_core.agents.adk.pending_calls import REMOTE_CREDENTIAL, REMOTE_INPUT


def answers_as_input(events: Sequence[Event], agent: str) -> list[Event]:
    """Return the events, with the user's answer to the request for a credential as an answer to a question.

    ADK keeps such an answer from the remote agent, as it does with a credential for one of the caller's own tools, and
    sends nothing. But the remote agent has asked for it, and its task waits.
    """
    if not events or events[-1].author != "user":
        return list(events)
    answered = {response.id for response in events[-1].get_function_responses() if response.name == REMOTE_CREDENTIAL}
    asked = [
        event.author == agent and any(call.id in answered for call in event.get_function_calls()) for event in events
    ]
    if not any(asked):
        return list(events)
    return [
        _renamed(event) if is_asked or event is events[-1] else event
        for event, is_asked in zip(events, asked, strict=True)
    ]


def _renamed(event: Event) -> Event:
    copy = event.model_copy(deep=True)
    for call in copy.get_function_calls():
        call.name = REMOTE_INPUT if call.name == REMOTE_CREDENTIAL else call.name
    for response in copy.get_function_responses():
        response.name = REMOTE_INPUT if response.name == REMOTE_CREDENTIAL else response.name
    return copy
