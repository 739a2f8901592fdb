"""Rules for the resumption of a graph's interrupted turn."""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from aion_core.agents.client_answers import QUESTION_EXPIRED
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.redeployment import missing_nodes, redeployed
from aion_core.agents.langgraph.turn import GraphTurn
from aion_core.engine.agent import TurnRequest
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message

TOO_MANY_STEPS = (
    "The agent reached the maximum number of steps and did not end. Its author sets this number: `recursion_limit` of "
    "the agent in aion.yaml, or in the config with which it calls another graph."
)
STATE_NOT_STORED = "The server stopped in the middle of this turn, and the graph stores no state to resume from."
STATE_LOST = (
    "The graph's own checkpointer has lost this turn: it stores its checkpoints in one process only. "
    "Compile the graph without it, or with a persistent one."
)


def check_durable(request: TurnRequest, turn: GraphTurn) -> None:
    """Raise AgentFailed if the turn must resume, but no checkpointer stores the graph's state."""
    if not turn.durable and (request.turn.tries > 1 or request.turn.handoffs):
        raise AgentFailed(STATE_NOT_STORED)


async def check_thread(
    request: TurnRequest, turn: GraphTurn, graph: Graph, state: StateSnapshot | None, question: Message | None
) -> None:
    """Raise AgentFailed if the stored state is missing, or if it names nodes that the graph no longer has."""
    if _is_empty(state) and turn.durable and question is not None:
        raise AgentFailed(STATE_LOST if isinstance(turn.own_saver, InMemorySaver) else QUESTION_EXPIRED)
    if _is_empty(state) and turn.own_saver is not None and _has_started(request, turn):
        raise AgentFailed(STATE_LOST)
    if missing := missing_nodes(turn.nodes, state.metadata if state is not None else None):
        resumes = turn.thread.is_of_turn(state) or question is not None
        if resumes and (waiting := await turn.thread.pending_work()) is not None:
            raise redeployed(missing, waiting)


def _is_empty(state: StateSnapshot | None) -> bool:
    return state is None or state.metadata is None


def _has_started(request: TurnRequest, turn: GraphTurn) -> bool:
    """Return True if the checkpointer should have stored a state of this turn.

    A state must exist after a handoff, a wait or a recorded emission. Without any of these, an earlier attempt may have
    failed before its first step, so a missing state is no error. The exception is the author's InMemorySaver, whose
    state was lost with the process of the earlier attempt.
    """
    if request.turn.handoffs or request.turn.wait is not None or any(entry.key for entry in request.recorded):
        return True
    return request.turn.tries > 1 and isinstance(turn.own_saver, InMemorySaver)
