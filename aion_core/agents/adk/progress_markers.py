"""Progress markers of an ADK invocation: the events that record how far each agent has come."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.adk.workflow import BaseNode

from aion_core.agents.adk.markers import is_marker
from aion_core.agents.adk.remote_agents.durability import is_remote_agent
from aion_core.agents.adk.remote_agents.marks import is_answer


class AgentRun:
    """Run of an agent, read from the events since it began. Each event is read once."""

    def __init__(self, agent: BaseNode, events: Iterable[Event] = ()) -> None:
        self._agent = agent
        self.active = agent
        """Agent to which the agent has last transferred, or the agent itself."""
        self.since: list[Event] = []
        """Events since the last transfer."""
        self._last: Event | None = None
        """Last event of the agent or an agent below it that is no marker."""
        self._ended: set[str] = set()
        """Names of the agents that have ended since the last transfer."""
        self._is_known = True
        """False if the agent has transferred to an agent that does not exist."""
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Read the next event."""
        if event.author == "user":
            self._last = None  # the agent continues with the user's answer, so what it said before does not end it
            return
        if isinstance(self._agent, LlmAgent):
            if not is_marker(event) and self._agent.find_agent(event.author) is not None:
                self._last = event
            if name := event.actions.transfer_to_agent:
                target = self._agent.find_agent(name)
                self.active, self._is_known = target or self._agent, target is not None
                self.since.clear()
                self._ended.clear()
                return
        if self._is_known:
            self.since.append(event)
            if event.actions.end_of_agent or is_answer(event):
                self._ended.add(event.author)

    @property
    def has_ended(self) -> bool:
        """True if the agent has ended.

        An agent with an end marker has ended, and a RemoteA2aAgent with its answer. An LLM agent has also ended if it
        has given its final answer, because resuming it would call the model again.
        """
        if self.active.name in self._ended:
            return True
        agent, last = self._agent, self._last
        if not isinstance(agent, LlmAgent) or last is None:
            return False
        if last.actions.transfer_to_agent or last.long_running_tool_ids or not last.is_final_response():
            return False
        waits = last.actions.requested_auth_configs or last.actions.requested_tool_confirmations
        if last.get_function_responses() and waits:
            return False
        author = agent.find_agent(last.author)
        if author is None or (author is not agent and getattr(author, "mode", None) == "single_turn"):
            # Return False, because the calling agent continues with the answer of a single-turn agent.
            return False
        # Require LLM agents between the author of the answer and this agent, because the answer of a sub-agent does not
        # end a workflow agent.
        callers = list(_ancestors(author, agent))
        if is_remote_agent(author):
            return is_answer(last) and all(isinstance(each, LlmAgent) for each in callers[1:])
        return all(isinstance(each, LlmAgent) for each in callers)


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


def _next_marker(agent: BaseNode, events: Sequence[Event]) -> Event | None:
    """Return the missing progress marker of the innermost agent; None if no marker is missing."""
    match agent:
        case SequentialAgent() | LoopAgent():
            index = next((n for n in reversed(range(len(events))) if _is_state_of(agent, events[n])), None)
            if index is None or AgentRun(agent, events[index:]).has_ended:
                return None
            state, since = events[index].actions.agent_state or {}, events[index + 1 :]
            current = next((sub for sub in agent.sub_agents if sub.name == state.get("current_sub_agent")), None)
            if current is None:
                return None
            if (inner := _next_marker(current, since)) is not None:
                return inner
            return _marker_after(agent, current, state, events[index], since)
        case ParallelAgent():
            if AgentRun(agent, events).has_ended:
                return None
            for sub in agent.sub_agents:
                own = _events_of(sub, events)
                if (inner := _next_marker(sub, own)) is not None:
                    return inner
                marked = any(event.actions.end_of_agent and event.author == sub.name for event in own)
                if AgentRun(sub, own).has_ended and not marked:
                    return _marker(sub.name, own[-1], EventActions(end_of_agent=True))
            return None
        case LlmAgent():
            run = AgentRun(agent, events)
            return _next_marker(run.active, run.since) if run.active is not agent else None
        case _:
            return None


def _events_of(agent: BaseAgent, events: Sequence[Event]) -> list[Event]:
    """Return the events of the agent, of those below it, and of the user's answers to them."""
    branches = {event.branch for event in events if agent.find_agent(event.author) is not None}
    return [
        event
        for event in events
        if agent.find_agent(event.author) is not None or (event.author == "user" and event.branch in branches)
    ]


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
    if not AgentRun(current, since).has_ended:
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
