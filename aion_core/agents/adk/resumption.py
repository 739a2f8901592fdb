"""Rules for the resumption of an interrupted ADK invocation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.markers import is_marker
from aion_core.agents.adk.node_resumption import COMPLETED
from aion_core.agents.adk.pending_calls import PendingCall
from aion_core.agents.adk.progress_markers import AgentRun
from aion_core.agents.adk.remote_agents.durability import is_remote_agent
from aion_core.agents.adk.remote_agents.marks import is_answer

TRANSFER_NOT_RESUMABLE = (
    "The server stopped during this turn, and the turn is not resumable: a SequentialAgent, LoopAgent or ParallelAgent "
    "does not resume after an LLM agent has transferred to it. Send the message again with a new id. For the agent's "
    "author: make it an AgentTool or the root of the App, or set `resume: restart` in aion.yaml."
)
_RESUMABLE_TYPES = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)
_WORKFLOW_TYPES = (SequentialAgent, ParallelAgent, LoopAgent)


def is_resumable(agent: BaseNode) -> bool:
    """Return True if ADK can resume this agent after its last event.

    ADK resumes LLM agents and its own workflow agents, unless a subclass overrides their run method. A RemoteA2aAgent
    continues its call. ADK starts any other BaseAgent over, and may repeat its side effects. A Workflow is resumable if
    all agents among its nodes are; ADK runs other interrupted nodes again.
    """
    if is_remote_agent(agent):
        return True
    if isinstance(agent, Workflow):
        return next(_not_resumable_nodes(agent), None) is None
    return any(
        type(agent)._run_async_impl is base._run_async_impl for base in _RESUMABLE_TYPES if isinstance(agent, base)
    )


def passes_events_on(agent: BaseNode) -> bool:
    """Return True if the agent passes on each event of the agents within it before they continue.

    ADK's own agents do. A custom one may collect events, or read them from a queue.
    """
    return not isinstance(agent, BaseAgent) or is_resumable(agent)


class InvocationProgress:
    """Progress of an ADK invocation, read from its events.

    Each event is read once, so that the checks after each event of a turn take the same time in a long turn.
    """

    def __init__(self, root: BaseNode, events: Iterable[Event] = ()) -> None:
        self._root = root
        self._run = AgentRun(root)
        self._last: Event | None = None
        self._ended: set[str] = set()
        self._state: dict[str, Mapping[str, Any]] = {}
        self._nodes: set[str] = set()
        """Names of the nodes that have begun in a Workflow and not ended."""
        self._transferred: set[str] = set()
        """Names of those that have transferred to another agent."""
        self._last_author = ""
        self._transferred_to = ""
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Read the invocation's next event."""
        self._last = event
        if event.author == "user":
            # The root agent continues with the user's message or answer, so only the later events tell if it has ended.
            self._run = AgentRun(self._root)
            return
        self._run.add(event)
        if isinstance(self._root, Workflow):
            self._add_nodes(event)
        self._last_author = event.author
        self._transferred_to = event.actions.transfer_to_agent or ""
        if event.actions.end_of_agent or is_answer(event):
            self._ended.add(event.author)
        elif event.actions.agent_state is not None:
            self._state[event.author] = event.actions.agent_state
            self._ended.discard(event.author)

    @property
    def is_finished(self) -> bool:
        """True if the root agent has nothing left to do in the invocation, even without ADK's end marker."""
        return (not isinstance(self._root, LlmAgent) or is_resumable(self._root)) and self._run.has_ended

    @property
    def can_resume(self) -> bool:
        """True if ADK can resume all running agents of the invocation after the last event."""
        return not self.has_transferred_workflow and next(self.not_resumable(), None) is None

    @property
    def can_stop(self) -> bool:
        """True if the turn can stop after the last event, without losing or repeating work.

        A turn cannot stop between a sub-agent's answer and its end marker, or while a node of a Workflow runs.
        """
        last = self._last
        if last is None or self.is_finished or not self.can_resume:
            return False
        if isinstance(self._root, Workflow):
            state = last.actions.agent_state if last.author == self._root.name else None
            nodes = (state or {}).get("nodes", {})
            return bool(nodes) and all(node.get("status") == COMPLETED for node in nodes.values())
        if is_marker(last):
            return not last.actions.end_of_agent
        return bool(last.get_function_calls() or last.get_function_responses()) and not last.is_final_response()

    @property
    def has_transferred_workflow(self) -> bool:
        """True if the root is an LLM agent that has transferred to a workflow agent, which is still running.

        ADK cannot resume this case, because it does not find the workflow's position. It would start the workflow over,
        treat the started steps as completed, and skip the other steps.
        """
        return isinstance(self._root, LlmAgent) and any(
            isinstance(agent, _WORKFLOW_TYPES) and agent.find_agent(self._last_author) is not None
            for agent in self._running(self._root)
        )

    def not_resumable(self) -> Iterator[BaseNode]:
        """Yield the running agents that ADK cannot resume, outermost first."""
        for agent in self._running(self._root):
            if isinstance(agent, Workflow):
                yield from _not_resumable_nodes(agent)
                yield from self._running_subtrees(agent)
            elif not is_resumable(agent):
                yield agent

    def _add_nodes(self, event: Event) -> None:
        names = [segment.partition("@")[0] for segment in event.node_info.path.split("/")]
        self._nodes.update(names)
        if event.actions.transfer_to_agent:
            self._transferred.update(names)
        nodes = (event.actions.agent_state or {}).get("nodes", {})
        ended = {name for name, node in nodes.items() if node.get("status") == COMPLETED}
        self._nodes -= ended
        self._transferred -= ended

    def _running_subtrees(self, workflow: Workflow) -> Iterator[BaseNode]:
        """Yield the running nodes of a Workflow that have other agents below them: ADK loses their position."""
        for node in workflow.graph.nodes if workflow.graph is not None else ():
            if isinstance(node, Workflow):
                yield from self._running_subtrees(node)
            elif node.name in (self._nodes if isinstance(node, _WORKFLOW_TYPES) else self._transferred):
                yield node

    def _running(self, agent: BaseNode) -> Iterator[BaseNode]:
        """Yield the agents that are running after the last event: this agent and those below it."""
        yield agent
        match agent:
            case SequentialAgent() | LoopAgent():
                current = self._state.get(agent.name, {}).get("current_sub_agent")
                named = [sub for sub in agent.sub_agents if sub.name == current]
                running: Sequence[BaseAgent] = named or agent.sub_agents[:1]
            case ParallelAgent():
                running = [sub for sub in agent.sub_agents if sub.name not in self._ended]
            case LlmAgent():
                active = self._transferred_to or self._last_author
                running = [sub for sub in agent.sub_agents if sub.find_agent(active) is not None]
            case _:
                running = []
        for sub in running:
            yield from self._running(sub)


def would_skip_question(root: BaseNode, events: Sequence[Event], pending: Sequence[PendingCall]) -> bool:
    """Return True if an interrupted turn with these events has asked a question that ADK would skip.

    A workflow agent that ADK resumes does not see that its sub-agent waits, and goes on to the next one.
    """
    stored = {id(event) for event in events}
    return isinstance(root, _WORKFLOW_TYPES) and any(id(call.event) in stored for call in pending)


def not_resumable_reason(progress: InvocationProgress) -> str:
    """Return why the invocation's turn fails after the loss of its process: for the client, and the agent's author."""
    agent = next(progress.not_resumable(), None)
    if agent is not None and is_resumable(agent):
        node = f"the node {agent.name!r} ({type(agent).__name__}) of a Workflow"
        cause = f"{node} has other agents below it, where ADK loses its position"
        remedy = "set `resume: restart` in aion.yaml, or make these agents nodes of the Workflow"
    elif agent is not None:
        cause = f"the agent {agent.name!r} ({type(agent).__name__}) is a custom agent, which stores no steps"
        remedy = "set `resume: restart` in aion.yaml, or make it an LlmAgent or a Workflow"
    else:
        cause = "the App has switched its resumability off"
        remedy = "switch it on (ResumabilityConfig), or set `resume: restart` in aion.yaml"
    return (
        f"The server stopped during this turn, and the turn is not resumable: {cause}. "
        f"Send the message again with a new id. For the agent's author: {remedy}."
    )


def _not_resumable_nodes(workflow: Workflow) -> Iterator[BaseNode]:
    for node in workflow.graph.nodes if workflow.graph is not None else ():
        if isinstance(node, Workflow):
            yield from _not_resumable_nodes(node)
        elif isinstance(node, BaseAgent) and not is_resumable(node):
            yield node
