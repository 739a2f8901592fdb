"""Progress markers of an ADK invocation: the events that record how far each agent has come."""

from collections.abc import Iterator, Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.adk.workflow import BaseNode


def is_marker(event: Event) -> bool:
    """Return True if the ADK event is a progress marker, such as the end of an agent."""
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None


def has_ended(agent: BaseNode, events: Sequence[Event]) -> bool:
    """Return True if the agent has ended, judging by the events since its run began.

    An agent with an end marker has ended. An LLM agent has also ended if it has given its final answer, because
    resuming it would call the model again.
    """
    own = [event for event in events if event.author != "user"]
    active, since = _active_agent(agent, own)
    if any(event.actions.end_of_agent and event.author == active.name for event in since):
        return True
    if not isinstance(agent, LlmAgent):
        return False
    within = [event for event in own if not is_marker(event) and agent.find_agent(event.author) is not None]
    last = within[-1] if within else None
    if last is None or last.actions.transfer_to_agent or last.long_running_tool_ids or not last.is_final_response():
        return False
    waits = last.actions.requested_auth_configs or last.actions.requested_tool_confirmations
    if last.get_function_responses() and waits:
        return False
    author = agent.find_agent(last.author)
    if author is None or (author is not agent and getattr(author, "mode", None) == "single_turn"):
        # Return False, because the calling agent continues with the answer of a single-turn agent.
        return False
    # Require LLM agents between the author of the answer and this agent, because the answer of a sub-agent does not end
    # a workflow agent.
    return all(isinstance(each, LlmAgent) for each in _ancestors(author, agent))


def missing_markers(root: BaseNode, events: Sequence[Event]) -> Iterator[Event]:
    """Yield the progress markers that an invocation lacks, innermost agents first.

    ADK records the end of a sub-agent in a separate event. If the process dies before this event, ADK would run the
    sub-agent again and call its model again.
    """
    known = list(events)
    if isinstance(root, LlmAgent) and known and known[-1].actions.transfer_to_agent:
        # Mark the agent as ended, because it has transferred to another agent. Without this marker, ADK would call the
        # first agent's model again.
        yield _marker(known[-1].author, known[-1], EventActions(end_of_agent=True))
    while (marker := _next_marker(root, known)) is not None:
        known.append(marker)
        yield marker


def _active_agent(agent: BaseNode, events: Sequence[Event]) -> tuple[BaseNode, Sequence[Event]]:
    """Return the agent to which this agent has last transferred, or itself, and the events since the transfer."""
    if isinstance(agent, LlmAgent):
        for index in reversed(range(len(events))):
            if name := events[index].actions.transfer_to_agent:
                target = agent.find_agent(name)
                return (target, events[index + 1 :]) if target is not None else (agent, ())
    return agent, events


def _next_marker(agent: BaseNode, events: Sequence[Event]) -> Event | None:
    """Return the missing progress marker of the innermost agent; None if no marker is missing."""
    match agent:
        case SequentialAgent() | LoopAgent():
            index = next((n for n in reversed(range(len(events))) if _is_state_of(agent, events[n])), None)
            if index is None or has_ended(agent, events[index:]):
                return None
            state, since = events[index].actions.agent_state or {}, events[index + 1 :]
            current = next((sub for sub in agent.sub_agents if sub.name == state.get("current_sub_agent")), None)
            if current is None:
                return None
            if (inner := _next_marker(current, since)) is not None:
                return inner
            return _marker_after(agent, current, state, events[index], since)
        case ParallelAgent():
            if has_ended(agent, events):
                return None
            for sub in agent.sub_agents:
                own = [event for event in events if sub.find_agent(event.author) is not None]
                if (inner := _next_marker(sub, own)) is not None:
                    return inner
                marked = any(event.actions.end_of_agent and event.author == sub.name for event in own)
                if has_ended(sub, own) and not marked:
                    return _marker(sub.name, own[-1], EventActions(end_of_agent=True))
            return None
        case LlmAgent():
            active, since = _active_agent(agent, events)
            return _next_marker(active, since) if active is not agent else None
        case _:
            return None


def _marker_after(
    agent: SequentialAgent | LoopAgent,
    current: BaseAgent,
    state: dict[str, Any],
    template: Event,
    since: Sequence[Event],
) -> Event | None:
    """Return the marker that a workflow agent lacks after its current sub-agent; None if the sub-agent is running."""
    ended = EventActions(end_of_agent=True)
    if isinstance(agent, LoopAgent) and any(event.actions.escalate for event in since):
        return _marker(agent.name, template, ended)
    if not has_ended(current, since):
        return None
    index = agent.sub_agents.index(current) + 1
    if isinstance(agent, SequentialAgent):
        if index == len(agent.sub_agents):
            return _marker(agent.name, template, ended)
        following = {"current_sub_agent": agent.sub_agents[index].name}
        return _marker(agent.name, template, EventActions(agent_state=following))
    times = int(state.get("times_looped", 0)) + index // len(agent.sub_agents)
    if agent.max_iterations is not None and times >= agent.max_iterations:
        return _marker(agent.name, template, ended)
    progress = {"current_sub_agent": agent.sub_agents[index % len(agent.sub_agents)].name, "times_looped": times}
    return _marker(agent.name, template, EventActions(agent_state=progress))


def _marker(author: str, template: Event, actions: EventActions) -> Event:
    return Event(
        invocation_id=template.invocation_id,
        author=author,
        branch=template.branch,
        isolation_scope=template.isolation_scope,
        node_info=template.node_info,
        custom_metadata=template.custom_metadata,
        actions=actions,
    )


def _is_state_of(agent: BaseNode, event: Event) -> bool:
    return event.author == agent.name and event.actions.agent_state is not None


def _ancestors(agent: BaseAgent, root: BaseNode) -> Iterator[BaseAgent]:
    current: BaseAgent | None = agent
    while current is not None:
        yield current
        current = current.parent_agent if current is not root else None
