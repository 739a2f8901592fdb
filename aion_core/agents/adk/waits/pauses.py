"""The event by which ADK pauses an invocation that waits. It is neither stored nor shown."""

import uuid
from collections.abc import Iterator

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types as genai

FRAMEWORK = "adk_framework"
"""Name of a function call that ADK keeps from the model."""

_PAUSE = "aion:pause"
"""Key in an event's metadata for a pause."""


def pause_event(author: str, ctx: InvocationContext) -> Event:
    """Return an event with which an agent waits.

    For ADK it has a long-running call: each agent above stops, a ParallelAgent or a Workflow after its other branches.
    It is partial, because ADK stores no partial event.
    """
    call = genai.FunctionCall(id=f"aion-{uuid.uuid4()}", name=FRAMEWORK)
    return Event(
        invocation_id=ctx.invocation_id,
        author=author,
        branch=ctx.branch,
        partial=True,
        content=genai.Content(role="model", parts=[genai.Part(function_call=call)]),
        long_running_tool_ids={call.id or ""},
        custom_metadata={_PAUSE: True},
    )


def pausing(author: str, ctx: InvocationContext) -> Iterator[Event]:
    """Yield the `pause_event` as the agent's last one."""
    event = pause_event(author, ctx)
    yield event
    # ADK warns of a partial event as the last one.
    event.partial = None


def is_pause(event: Event) -> bool:
    """Return True for the event of an agent that waits."""
    return _PAUSE in (event.custom_metadata or {})
