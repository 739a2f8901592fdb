"""Rules for the restart of an executor's interrupted turn."""

from aion_core.agents.restarts import MAX_RUNS, TOO_MANY_RUNS
from aion_core.engine.agent import TurnRequest
from aion_core.engine.agent_options import AfterCrash
from aion_core.errors import AgentFailed

NOT_RESUMABLE = (
    "The server stopped during this turn, and the turn is not resumable: an executor has no step to resume from. "
    "Send the message again with a new id."
)


async def check_restart(request: TurnRequest, resume: AfterCrash) -> None:
    """Raise AgentFailed if the turn was interrupted before, and `resume` or MAX_RUNS forbids another restart.

    A turn that waits for a remote agent may be handed on more often.
    """
    if not has_started_over(request):
        return
    if resume is AfterCrash.FAIL:
        raise AgentFailed(NOT_RESUMABLE)
    runs = request.turn.tries + request.turn.handoffs
    if runs > MAX_RUNS and request.calls is not None and await request.calls.all():
        runs = request.turn.tries
    if runs > MAX_RUNS:
        raise AgentFailed(TOO_MANY_RUNS)


def has_started_over(request: TurnRequest) -> bool:
    """Return True if the turn was interrupted before."""
    return request.turn.tries + request.turn.handoffs > 1
