"""The marks by which ADK's workflow agents know how far they are, where a process was lost before it could set them.

A sub-agent that has given its answer is done, and so ADK marks it, by an event of its own. Without that event it would
run the sub-agent again, and its model would be asked once more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.adk.workflow import BaseNode


def is_mark(event: Event) -> bool:
    """Tell whether the event only says how far an agent is."""
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None


def ends(agent: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether these events, of which none is older than the agent's run, hold its end.

    That is its mark, or, of an LLM agent, the answer: to go on from there would be to ask the model once more.
    """
    own = [event for event in events if event.author != "user"]
    at_work, since = _at_work(agent, own)
    if any(event.actions.end_of_agent and event.author == at_work.name for event in since):
        return True
    if not isinstance(agent, LlmAgent):
        return False
    within = [event for event in own if not is_mark(event) and agent.find_agent(event.author) is not None]
    last = within[-1] if within else None
    if last is None or last.actions.transfer_to_agent or last.long_running_tool_ids or not last.is_final_response():
        return False
    if last.get_function_responses() and (last.actions.requested_auth_configs or _confirms(last)):
        return False
    author = agent.find_agent(last.author)
    if author is None or (author is not agent and getattr(author, "mode", None) == "single_turn"):
        # What it answers is for the agent that has asked it.
        return False
    # What a sub-agent of a workflow answers is not the workflow's end.
    return all(isinstance(each, LlmAgent) for each in _up_to(author, agent))


def _at_work(agent: BaseNode, events: Sequence[Event]) -> tuple[BaseNode, Sequence[Event]]:
    """Return who has the work of the agent, and the events since: an LLM agent that has transferred it marks its own end."""
    if isinstance(agent, LlmAgent):
        for place in reversed(range(len(events))):
            if name := events[place].actions.transfer_to_agent:
                to = agent.find_agent(name)
                return (to, events[place + 1 :]) if to is not None else (agent, ())
    return agent, events


def missing(root: BaseNode, events: Sequence[Event]) -> Iterator[Event]:
    """Yield the marks that the invocation whose events these are should have by now, the innermost first."""
    known = list(events)
    if isinstance(root, LlmAgent) and known and known[-1].actions.transfer_to_agent:
        # Whoever has transferred the work has ended; else it would be asked once more.
        yield _mark(known[-1].author, known[-1], EventActions(end_of_agent=True))
    while (mark := _next(root, known)) is not None:
        known.append(mark)
        yield mark


def _next(agent: BaseNode, events: Sequence[Event]) -> Event | None:
    """Return the mark that is missing innermost, None where none is."""
    match agent:
        case SequentialAgent() | LoopAgent():
            place = next((n for n in reversed(range(len(events))) if _is_state_of(agent, events[n])), None)
            if place is None or ends(agent, events[place:]):
                return None
            state, since = events[place].actions.agent_state or {}, events[place + 1 :]
            current = next((sub for sub in agent.sub_agents if sub.name == state.get("current_sub_agent")), None)
            if current is None:
                return None
            if (inner := _next(current, since)) is not None:
                return inner
            return _after(agent, current, state, events[place], since)
        case ParallelAgent():
            if ends(agent, events):
                return None
            for sub in agent.sub_agents:
                own = [event for event in events if sub.find_agent(event.author) is not None]
                if (inner := _next(sub, own)) is not None:
                    return inner
                if ends(sub, own) and not any(event.actions.end_of_agent and event.author == sub.name for event in own):
                    return _mark(sub.name, own[-1], EventActions(end_of_agent=True))
            return None
        case LlmAgent():
            at_work, since = _at_work(agent, events)
            return _next(at_work, since) if at_work is not agent else None
        case _:
            return None


def _after(
    agent: SequentialAgent | LoopAgent,
    current: BaseAgent,
    state: dict[str, Any],
    like: Event,
    since: Sequence[Event],
) -> Event | None:
    """Return the mark that the agent sets when its current sub-agent has ended, None where it has not."""
    ended = EventActions(end_of_agent=True)
    if isinstance(agent, LoopAgent) and any(event.actions.escalate for event in since):
        return _mark(agent.name, like, ended)
    if not ends(current, since):
        return None
    place = agent.sub_agents.index(current) + 1
    if isinstance(agent, SequentialAgent):
        if place == len(agent.sub_agents):
            return _mark(agent.name, like, ended)
        return _mark(agent.name, like, EventActions(agent_state={"current_sub_agent": agent.sub_agents[place].name}))
    times = int(state.get("times_looped", 0)) + place // len(agent.sub_agents)
    if agent.max_iterations is not None and times >= agent.max_iterations:
        return _mark(agent.name, like, ended)
    following = agent.sub_agents[place % len(agent.sub_agents)].name
    return _mark(agent.name, like, EventActions(agent_state={"current_sub_agent": following, "times_looped": times}))


def _mark(author: str, like: Event, actions: EventActions) -> Event:
    return Event(
        invocation_id=like.invocation_id,
        author=author,
        branch=like.branch,
        isolation_scope=like.isolation_scope,
        node_info=like.node_info,
        custom_metadata=like.custom_metadata,
        actions=actions,
    )


def _is_state_of(agent: BaseNode, event: Event) -> bool:
    return event.author == agent.name and event.actions.agent_state is not None


def _confirms(event: Event) -> bool:
    return bool(event.actions.requested_tool_confirmations)


def _up_to(agent: BaseAgent, root: BaseNode) -> Iterator[BaseAgent]:
    current: BaseAgent | None = agent
    while current is not None:
        yield current
        current = current.parent_agent if current is not root else None
