"""Rules for the resumption of an interrupted ADK invocation."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.progress_markers import has_ended, is_marker

NOT_RESUMABLE = (
    "The server stopped during this turn, and the turn is not resumable: ADK cannot resume a custom agent. "
    "Send the message again with a new id."
)
TRANSFER_NOT_RESUMABLE = (
    "The server stopped during this turn, and the turn is not resumable: ADK cannot resume a workflow agent after an "
    "LLM agent has transferred to it. Send the message again with a new id."
)
_COMPLETED = 3
"""Value of ADK's `NodeStatus.COMPLETED`."""

_RESUMABLE_TYPES = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)


def is_resumable(agent: BaseNode) -> bool:
    """Return True if ADK can resume this agent after its last event.

    ADK resumes LLM agents and its own workflow agents, unless a subclass overrides their run method. It starts any
    other BaseAgent over, and may repeat its side effects. A Workflow is resumable if all agents among its nodes are;
    ADK runs other interrupted nodes again.
    """
    if isinstance(agent, Workflow):
        nodes = agent.graph.nodes if agent.graph is not None else []
        return all(is_resumable(node) for node in nodes if isinstance(node, BaseAgent | Workflow))
    return any(
        type(agent)._run_async_impl is base._run_async_impl for base in _RESUMABLE_TYPES if isinstance(agent, base)
    )


def is_finished(root: BaseNode, events: Sequence[Event]) -> bool:
    """Return True if the root agent has nothing left to do in the invocation, even without ADK's end marker."""
    since = list(takewhile(lambda event: event.author != "user", reversed(events)))[::-1]
    if not isinstance(root, LlmAgent) or is_resumable(root):
        return has_ended(root, since)
    return False


def can_stop(root: BaseNode, events: Sequence[Event]) -> bool:
    """Return True if the turn can stop after the last event, without losing or repeating work.

    A turn cannot stop between a sub-agent's answer and its end marker, or while a node of a Workflow runs.
    """
    if is_finished(root, events) or not can_resume(root, events):
        return False
    last = events[-1]
    if isinstance(root, Workflow):
        nodes = (last.actions.agent_state or {}).get("nodes", {}) if last.author == root.name else {}
        return bool(nodes) and all(node.get("status") == _COMPLETED for node in nodes.values())
    if is_marker(last):
        return not last.actions.end_of_agent
    return bool(last.get_function_calls() or last.get_function_responses()) and not last.is_final_response()


def can_resume(root: BaseNode, events: Sequence[Event]) -> bool:
    """Return True if ADK can resume all running agents of the invocation after the last event."""
    if has_transferred_workflow(root, events):
        return False
    return all(is_resumable(agent) for agent in _running_agents(root, _Progress(events)))


def has_transferred_workflow(root: BaseNode, events: Sequence[Event]) -> bool:
    """Return True if the root is an LLM agent that has transferred to a workflow agent, which is still running.

    ADK cannot resume this case, because it does not find the workflow's position. It would start the workflow over,
    treat the started steps as completed, and skip the other steps.
    """
    if not isinstance(root, LlmAgent):
        return False
    progress = _Progress(events)
    workflows = (SequentialAgent, ParallelAgent, LoopAgent)
    return any(
        isinstance(agent, workflows) and agent.find_agent(progress.last_author) is not None
        for agent in _running_agents(root, progress)
    )


class _Progress:
    """Progress of each agent of an invocation, read from the invocation's events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.ended: set[str] = set()
        self.state: dict[str, Mapping[str, Any]] = {}
        self.last_author = ""
        self.transferred_to = ""
        for event in events:
            if event.author == "user":
                continue
            self.last_author = event.author
            self.transferred_to = event.actions.transfer_to_agent or ""
            if event.actions.end_of_agent:
                self.ended.add(event.author)
            elif event.actions.agent_state is not None:
                self.state[event.author] = event.actions.agent_state
                self.ended.discard(event.author)


def _running_agents(agent: BaseNode, progress: _Progress) -> Iterator[BaseNode]:
    """Yield the agents that are running after the last event: this agent and those below it."""
    yield agent
    match agent:
        case SequentialAgent() | LoopAgent():
            current = progress.state.get(agent.name, {}).get("current_sub_agent")
            named = [sub for sub in agent.sub_agents if sub.name == current]
            running: Sequence[BaseAgent] = named or agent.sub_agents[:1]
        case ParallelAgent():
            running = [sub for sub in agent.sub_agents if sub.name not in progress.ended]
        case LlmAgent():
            active = progress.transferred_to or progress.last_author
            running = [sub for sub in agent.sub_agents if sub.find_agent(active) is not None]
        case _:
            running = []
    for sub in running:
        yield from _running_agents(sub, progress)
