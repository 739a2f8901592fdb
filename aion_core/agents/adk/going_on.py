"""Where a turn of an ADK agent goes on whose process is lost: at its last event, at its beginning, or nowhere.

ADK takes an invocation up again where its agents are LLM agents or the workflow agents of its own; a BaseAgent that
somebody wrote starts over, and may do twice what it has done.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.marks import ends, is_mark

NOT_RESUMABLE = (
    "The server stopped in the middle of this turn, and it is not resumable: a custom agent cannot go on from a step. "
    "Send the message again, with a new id."
)

NOT_TAKEN_UP = (
    "The server stopped in the middle of this turn, and it is not resumable: a workflow that an LLM agent has transferred "
    "its work to cannot go on from a step. Send the message again, with a new id."
)

_COMPLETED = 3
"""ADK's `NodeStatus.COMPLETED`."""
_KNOWN = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)


def goes_on(agent: BaseNode) -> bool:
    """Tell whether the agent, by itself, is taken up again where it was: ADK's own way of running has to be unchanged.

    A workflow is, with all the agents that are its nodes; what else it calls is run again if it was cut.
    """
    if isinstance(agent, Workflow):
        nodes = agent.graph.nodes if agent.graph is not None else []
        return all(goes_on(node) for node in nodes if isinstance(node, BaseAgent | Workflow))
    return any(type(agent)._run_async_impl is known._run_async_impl for known in _KNOWN if isinstance(agent, known))


def is_finished(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether the invocation whose events these are has nothing more to do, whether or not ADK has marked its end.

    A workflow agent says so by its last event; an LLM agent's answer is the end as well, since to go on from there would
    be to ask the model once more.
    """
    since = list(takewhile(lambda event: event.author != "user", reversed(events)))[::-1]
    if not isinstance(root, LlmAgent) or goes_on(root):
        return ends(root, since)
    return False


def may_stop(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether what follows the last of these events is all that is left to do: the place to stop a turn at.

    Between a sub-agent's answer and the mark that it has ended there is none; nor while a workflow's node runs.
    """
    if is_finished(root, events) or not can_go_on(root, events):
        return False
    last = events[-1]
    if isinstance(root, Workflow):
        nodes = (last.actions.agent_state or {}).get("nodes", {}) if last.author == root.name else {}
        return bool(nodes) and all(node.get("status") == _COMPLETED for node in nodes.values())
    if is_mark(last):
        return not last.actions.end_of_agent
    return bool(last.get_function_calls() or last.get_function_responses()) and not last.is_final_response()


def can_go_on(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether the agents that are under way, as far as these events tell, are taken up again where they were."""
    return not is_lost(root, events) and all(goes_on(agent) for agent in _under_way(root, _States(events)))


def is_lost(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether a workflow agent has begun that the root, an LLM agent, has transferred its work to.

    ADK runs such a root as a node, and does not find the workflow's place: it begins anew, takes the steps that have
    begun for done, and leaves out the rest of them.
    """
    if not isinstance(root, LlmAgent):
        return False
    states = _States(events)
    workflows = (SequentialAgent, ParallelAgent, LoopAgent)
    return any(
        isinstance(agent, workflows) and agent.find_agent(states.last_author) is not None
        for agent in _under_way(root, states)
    )


class _States:
    """What the events of a turn say of its agents."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.ended: set[str] = set()
        self.state: dict[str, Mapping[str, Any]] = {}
        self.last_author = ""
        self.transferred = ""
        for event in events:
            if event.author == "user":
                continue
            self.last_author = event.author
            self.transferred = event.actions.transfer_to_agent or ""
            if event.actions.end_of_agent:
                self.ended.add(event.author)
            elif event.actions.agent_state is not None:
                self.state[event.author] = event.actions.agent_state
                self.ended.discard(event.author)


def _under_way(agent: BaseNode, states: _States) -> Iterator[BaseNode]:
    """Yield the agents that may have been running, from the root down."""
    yield agent
    match agent:
        case SequentialAgent() | LoopAgent():
            current = states.state.get(agent.name, {}).get("current_sub_agent")
            running: Sequence[BaseAgent] = [sub for sub in agent.sub_agents if sub.name == current] or agent.sub_agents[
                :1
            ]
        case ParallelAgent():
            running = [sub for sub in agent.sub_agents if sub.name not in states.ended]
        case LlmAgent():
            holder = states.transferred or states.last_author
            running = [sub for sub in agent.sub_agents if sub.find_agent(holder) is not None]
        case _:
            running = []
    for sub in running:
        yield from _under_way(sub, states)
