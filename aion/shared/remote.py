"""Calls of other agents by A2A, for agents of any framework."""

from aion_core.authoring.remote import RemoteAnswer, call_agent, call_agents
from aion_core.errors import RemoteAgentError, RemoteAgentFailed, RemoteAgentRefused, RemoteAgentUnreachable

__all__ = [
    "RemoteAgentError",
    "RemoteAgentFailed",
    "RemoteAgentRefused",
    "RemoteAgentUnreachable",
    "RemoteAnswer",
    "call_agent",
    "call_agents",
]
