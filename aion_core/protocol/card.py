"""The agent card: an agent's declaration, as A2A clients of either version read it (spec 8, R1-R6)."""

from collections.abc import Sequence

from aion_core.protocol.aion.uris import AION_EXTENSIONS
from aion_core.protocol.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill

JSONRPC = "JSONRPC"
VERSIONS = ("1.0", "0.3")
"""The protocol versions that are served on one URL (D1)."""


def build_card(
    *,
    name: str,
    description: str,
    version: str,
    url: str,
    streaming: bool,
    skills: Sequence[AgentSkill],
    input_modes: Sequence[str],
    output_modes: Sequence[str],
) -> AgentCard:
    """Return the card of an agent that answers at `url`, in both versions of the protocol.

    An agent without declared skills gets one that says what the agent is: a card without skills is invalid.
    """
    described = description or f"{name}, an agent."
    return AgentCard(
        name=name,
        description=described,
        version=version,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=JSONRPC, protocol_version=spoken) for spoken in VERSIONS
        ],
        capabilities=AgentCapabilities(streaming=streaming, push_notifications=False, extensions=AION_EXTENSIONS),
        default_input_modes=input_modes,
        default_output_modes=output_modes,
        skills=skills or [AgentSkill(id="chat", name=name, description=described, tags=["chat"])],
    )
