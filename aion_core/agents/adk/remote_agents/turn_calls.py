"""A running turn, as the remote agents that it calls need it."""

from msgspec import Struct

from aion_core.agents.adk.waits.turn_waits import TurnWaits
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import TurnRequest
from aion_core.engine.remote_calls.turn_calls import TurnCalls


class RemoteTurn(Struct, frozen=True):
    """A running turn, as the remote agents that it calls need it."""

    calls: TurnCalls
    request: TurnRequest
    restarted: bool
    """True if the turn has started over from its message."""
    remotes: Remotes
    """Remote agents of aion.yaml by name."""
    waits: TurnWaits
    """Waits of the turn."""
