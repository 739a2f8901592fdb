"""Places at which a RemoteA2aAgent makes its calls, and the name of the remote agent. Pure."""

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from google.adk.agents.invocation_context import InvocationContext

from aion_core.agents.adk.remote_agents.marks import mark_of
from aion_core.agents.adk.rewind import turn_of
from aion_core.agents.emission_ids import deterministic_id
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.protocol.types import Part


def turn_of_open_call(known: Collection[RemoteCall], place: str, ctx: InvocationContext, *, in_tool: bool) -> str:
    """Return the turn whose call at this place has not been reported to ADK yet; "" for none.

    A turn may end with a question of another branch while its call waits. A turn that follows has the client's answer,
    and goes on with the same invocation. The place of a tool's call is of one invocation only.
    """
    events = ctx.session.events
    reported = {mark.call for mark in map(mark_of, events) if mark is not None and (mark.ended or mark.asks)}
    turns = {turn_of(event) for event in events if event.invocation_id == ctx.invocation_id}
    for call in known:
        turn_id, _, rest = call.key.partition("/")
        if rest.startswith(place) and call.key not in reported and (in_tool or turn_id in turns):
            return turn_id
    return ""


def place_of(agent: Any, ctx: InvocationContext, tool: str) -> str:
    """Return what the keys of the agent's calls at this place of the author's code have after the turn's id.

    ADK gives each execution of a workflow's node a path of its own.
    """
    place = deterministic_id(tool, ctx.branch or "", ctx.node_path or "")
    return f"{agent.name[:100]}/{place}/"


def remote_of(agent: Any) -> str:
    """Return what names the remote agent: the URL of its card, or of the agent itself."""
    if agent._agent_card_source:
        return str(agent._agent_card_source)
    interfaces = agent._agent_card.supported_interfaces
    return str(interfaces[0].url if interfaces else agent.name)


def digest_of(parts: Sequence[Part]) -> str:
    """Return a short digest of what a message says."""
    content = b"\0".join(part.SerializeToString(deterministic=True) for part in parts)
    return hashlib.sha256(content).hexdigest()[:16]
