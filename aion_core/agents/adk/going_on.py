"""Where a turn of an ADK agent goes on whose process is lost: at its last event, at its beginning, or nowhere.

ADK takes an invocation up again where its agents are LLM agents or the workflow agents of its own; a BaseAgent that
somebody wrote starts over, and may do twice what it has done.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.workflow import BaseNode

NOT_RESUMABLE = (
    "The server stopped in the middle of this turn, and it is not resumable: a custom agent cannot go on from a step. "
    "Send the message again, with a new id."
)

_KNOWN = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)


def goes_on(agent: BaseNode) -> bool:
    """Tell whether the agent, by itself, is taken up again where it was: ADK's own way of running has to be unchanged."""
    return any(type(agent)._run_async_impl is known._run_async_impl for known in _KNOWN if isinstance(agent, known))


def is_finished(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether the invocation whose events these are has nothing more to do, whether or not ADK has marked its end.

    A workflow agent says so by its last event; an LLM agent's answer is the end as well, since to go on from there would
    be to ask the model once more.
    """
    said = list(takewhile(lambda event: event.author != "user", reversed(events)))
    if any(event.actions.end_of_agent and event.author == root.name for event in said):
        return True
    if not isinstance(root, LlmAgent) or not goes_on(root):
        return False
    last = next((event for event in said if not _marks(event)), None)
    if last is None or last.actions.transfer_to_agent or last.get_function_calls() or not last.is_final_response():
        return False
    author = root.find_agent(last.author)
    # What a sub-agent of a workflow answers is not the workflow's end.
    return author is not None and all(isinstance(agent, LlmAgent) for agent in _up_to(author, root))


def can_go_on(root: BaseNode, events: Sequence[Event]) -> bool:
    """Tell whether the agents that are under way, as far as these events tell, are taken up again where they were."""
    return all(goes_on(agent) for agent in _under_way(root, _States(events)))


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


def _up_to(agent: BaseAgent, root: BaseNode) -> Iterator[BaseAgent]:
    current: BaseAgent | None = agent
    while current is not None:
        yield current
        current = current.parent_agent if current is not root else None


def _marks(event: Event) -> bool:
    """Tell whether the event only says how far an agent is."""
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None
