"""How long a turn waits for a remote agent: in its process, and in all."""

from aion_core.engine.agent import TurnRequest
from aion_core.errors import RemoteAgentUnreachable
from aion_core.table.times import milliseconds

SUSPEND_SECONDS = 1.0
"""Seconds for which a call may keep a process that no client holds. Then its turn is suspended."""


def check_limit(request: TurnRequest, call: str, agent: str) -> None:
    """Raise RemoteAgentUnreachable if the turn has waited for the call with this key as long as it may.

    `agent` is what the caller's client may read about the remote agent.
    """
    wait, sleeps = request.turn.wait, request.sleeps
    if wait is None or sleeps is None or all(each.key != call for each in wait.calls):
        return
    if milliseconds(sleeps.now()) >= wait.until:
        hours = (wait.until - wait.since) / 3_600_000
        text = f"The agent {agent} has not answered within {hours:.0f} hours."
        raise RemoteAgentUnreachable(text, agent=agent, reason="its task has not ended.")
