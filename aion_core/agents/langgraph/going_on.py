"""Whether a turn may go on: what an earlier try, or the turn that asked, has left has to be there, and to fit the graph."""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from aion_core.agents.langgraph import fingerprint
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.turn import GraphTurn
from aion_core.errors import AgentFailed
from aion_core.ports import Asked
from aion_core.protocol.types import Message

NOTHING_KEPT = "The server stopped in the middle of this turn, and the graph keeps no state to go on from."
FORGOTTEN = (
    "The graph's own checkpointer does not know this turn any more: it keeps what it is given in one process. "
    "Compile the graph without it, or with one that lasts."
)


def check_kept(asked: Asked, turn: GraphTurn) -> None:
    """Raise AgentFailed where the turn has begun before, and the graph keeps nothing."""
    if not turn.durable and (asked.turn.tries > 1 or asked.turn.hops):
        raise AgentFailed(NOTHING_KEPT)


async def check_thread(
    asked: Asked, turn: GraphTurn, graph: Graph, state: StateSnapshot | None, answers: Message | None
) -> None:
    """Raise AgentFailed where the thread does not hold what the turn is to go on from, or holds another graph's."""
    if _is_empty(state) and turn.own_saver is not None and _has_begun(asked, turn, answers):
        raise AgentFailed(FORGOTTEN)
    if not fingerprint.fits(graph, state.metadata if state is not None else None):
        goes_on = turn.thread.is_of_turn(state) or answers is not None
        if goes_on and await turn.thread.has_work():
            raise AgentFailed(fingerprint.REDEPLOYED)


def _is_empty(state: StateSnapshot | None) -> bool:
    return state is None or state.metadata is None


def _has_begun(asked: Asked, turn: GraphTurn, answers: Message | None) -> bool:
    """Tell whether the thread must hold something: the graph has asked, has been handed on, or has said something.

    A try that has left no trace may have died before it began. But where it was another process's, what an
    InMemorySaver was given is gone with that.
    """
    if answers is not None or asked.turn.hops or any(entry.key for entry in asked.recorded):
        return True
    return asked.turn.tries > 1 and isinstance(turn.own_saver, InMemorySaver)
