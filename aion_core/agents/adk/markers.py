"""Which ADK events are progress markers. Pure."""

from google.adk.events import Event


def is_marker(event: Event) -> bool:
    """Return True if the ADK event is a progress marker, such as the end of an agent."""
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None
