"""A running turn, as the remote agents that it calls need it."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from aion_core.delegation.remotes import Remotes
from aion_core.engine.remote_calls.turn_calls import TurnCalls

tool_call: ContextVar[str] = ContextVar("aion_adk_tool_call", default="")
"""Id of the running tool call, also for the agents that it runs; "" outside of a tool."""


class RemoteTurn(Struct, frozen=True):
    """A running turn, as the remote agents that it calls need it."""

    calls: TurnCalls
    request: Mapping[str, Any]
    """Metadata of the client's request."""
    restarted: bool
    """True if the turn has started over from its message."""
    remotes: Remotes
    """Remote agents of aion.yaml by name."""
