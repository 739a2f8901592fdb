"""Session of an ADK turn: its session service, recorded agents, progress markers, and resumability."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.adk.planners import BuiltInPlanner
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.workflow import BaseNode, Workflow

from aion_core.authoring.types import A2AOutbox, outbox_of
from aion_core.protocol.types import Task
from aion_core.state.adk.sessions import TableSessions

# ── Session service and outbox ────────────────────────────────────────────────────────────────────────────────────────

OUTBOX = "a2a_outbox"
OUTBOX_METADATA = "aion:outbox"
"""Key in an ADK event's metadata for the outbox."""


def outbox_of_event(event: Event) -> A2AOutbox | None:
    """Return the outbox of an ADK event; None if it has none. Raises AgentFailed for an invalid outbox."""
    given = event.actions.state_delta.get(OUTBOX)
    if given is None:
        given = (event.custom_metadata or {}).get(OUTBOX_METADATA)
    return outbox_of(given) if given is not None else None


def merged_outbox(outboxes: Sequence[A2AOutbox]) -> A2AOutbox | None:
    """Merge the outboxes of a turn into one: append their messages to its history, and merge their tasks in order."""
    if len(outboxes) < 2:
        return outboxes[0] if outboxes else None
    patch = Task()
    for outbox in outboxes:
        if outbox.message is not None:
            patch.history.append(outbox.message)
        elif outbox.task is not None:
            patch.MergeFrom(outbox.task)
    return A2AOutbox(task=patch)


class TurnSessionService(BaseSessionService):
    """Session service of one turn that moves `a2a_outbox` from the session's state to the metadata of the ADK event.

    The session's state outlives the turn, so the next turn would send an outbox in the state a second time. The event's
    metadata is stored too, so the outbox is not lost if the process dies. The service also adds the agent's
    `configuration` from aion.yaml to the session's state, without replacing existing keys. The configuration is never
    stored.
    """

    def __init__(self, sessions: BaseSessionService, configuration: Mapping[str, Any] | None = None) -> None:
        self._sessions, self._configuration = sessions, configuration or {}
        self._closed = False
        self._kept: Session | None = None

    def keep(self, session: Session) -> None:
        """Return this session object from the next `get_session` for all its events, instead of a second read.

        The caller must hold the turn's lease, so that no other process changes the session before.
        """
        self._kept = session

    def close(self) -> None:
        """Ignore all later events, because the turn has ended here although the agent may still be running."""
        self._closed = True

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store the event, with its outbox in the metadata. See `BaseSessionService.append_event`.

        Raises AgentFailed for an invalid outbox.
        """
        if self._closed:
            return event
        if not event.partial and OUTBOX in event.actions.state_delta:
            outbox = outbox_of_event(event)
            event.actions.state_delta = {
                key: value for key, value in event.actions.state_delta.items() if key != OUTBOX
            }
            # Remove the outbox that a tool has set in the session object.
            session.state.pop(OUTBOX, None)
            if outbox is not None:
                stored = outbox.model_dump(mode="json", exclude_none=True)
                event.custom_metadata = {**(event.custom_metadata or {}), OUTBOX_METADATA: stored}
        return await self._sessions.append_event(session, event)

    async def renew(self, session: Session) -> None:
        """Renew the session's TTL, if the wrapped session service is aion's."""
        if isinstance(self._sessions, TableSessions):
            await self._sessions.renew(session)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session in the wrapped session service. See `BaseSessionService.create_session`."""
        return await self._sessions.create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session with the configuration in its state. See `BaseSessionService.get_session`."""
        kept, self._kept = self._kept, None
        if kept and config is None and (kept.app_name, kept.user_id, kept.id) == (app_name, user_id, session_id):
            return kept
        session = await self._sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )
        if session is not None:
            for key, value in self._configuration.items():
                session.state.setdefault(key, copy.deepcopy(value))
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List the sessions of the wrapped session service. See `BaseSessionService.list_sessions`."""
        return await self._sessions.list_sessions(app_name=app_name, user_id=user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session of the wrapped session service. See `BaseSessionService.delete_session`."""
        await self._sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user state of the wrapped session service. See `BaseSessionService.get_user_state`."""
        return await self._sessions.get_user_state(app_name=app_name, user_id=user_id)

    async def flush(self) -> None:
        """Flush the wrapped session service. See `BaseSessionService.flush`."""
        await self._sessions.flush()


# ── Fingerprint of the agents ─────────────────────────────────────────────────────────────────────────────────────────

AGENTS = "aion:agents"
"""Key in an ADK event's metadata for the names of all agents of the deployment at that time."""

REDEPLOYED = "The agent was deployed with other agents during this turn. Send the first message again with a new id."


def agent_names(root: BaseNode) -> str:
    """Return the paths of the root agent and of all agents below it, as sorted lines of text."""
    return "\n".join(sorted(_paths(root)))


def missing_agents(root: BaseNode, events: Sequence[Event]) -> list[str]:
    """Return the agents that the session's events name, and that the root agent does not contain.

    ADK does not report a missing agent: it starts the turn over, or ends it at once.
    """
    recorded = {name for event in events for name in str((event.custom_metadata or {}).get(AGENTS, "")).split("\n")}
    return sorted(recorded - {"", *_paths(root)})


def planning_agents(root: BaseNode) -> frozenset[str]:
    """Return the names of the agents whose text must not be streamed, because it contains their plans.

    ADK marks a plan as a thought only in the complete text. In a partial event, the plan looks like an answer.
    """
    planners = ((node.name, getattr(node, "planner", None)) for _, node in _nodes(root))
    return frozenset(name for name, planner in planners if planner and not isinstance(planner, BuiltInPlanner))


def _paths(root: BaseNode) -> Iterator[str]:
    yield from (path for path, _ in _nodes(root))


def _nodes(node: BaseNode, above: str = "") -> Iterator[tuple[str, BaseNode]]:
    path = f"{above}/{node.name}"
    yield path, node
    if isinstance(node, Workflow):
        inner: Sequence[BaseNode] = node.graph.nodes if node.graph is not None else ()
    else:
        inner = getattr(node, "sub_agents", ())
    for each in inner:
        yield from _nodes(each, path)


# ── Progress markers ──────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── Resumption ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
