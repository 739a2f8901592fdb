"""Which ADK events are progress markers. Pure."""

from google.adk.events import Event

from aion_core.agents.adk.waits.held_calls import is_held


def is_marker(event: Event) -> bool:
    """Return True if the ADK event is a progress marker, such as the end of an agent, or the results of held calls."""
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None or is_held(event)
