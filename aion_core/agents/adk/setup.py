"""App of an ADK agent, prepared for all its turns."""

from collections.abc import Callable, Mapping
from typing import Any

from google.adk.apps import App
from google.adk.artifacts import BaseArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService
from google.adk.workflow import BaseNode
from msgspec import Struct

from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import TurnRequest
from aion_core.engine.fenced_writes import Fence

SessionFactory = Callable[[Fence | None], BaseSessionService]
"""Factory of a turn's session service, which checks the turn's fencing number at each write; None for reads only."""

ArtifactFactory = Callable[[TurnRequest], BaseArtifactService]
"""Factory of a turn's artifact service, which checks the turn's lease before each write."""


class AdkSetup(Struct, frozen=True, kw_only=True):
    """ADK App of an agent, with the services and settings that all its turns share."""

    name: str
    """Name of the agent in the configuration."""
    app: App
    root: BaseNode
    """Root of the App, which is an agent or a workflow."""
    agent_names: str
    """Names of the root and all agents below it, from `agent_names`."""
    planning_agents: frozenset[str]
    """Names of the agents whose text is not streamed, from `planning_agents`."""
    sessions: SessionFactory
    artifacts: ArtifactFactory | None
    configuration: Mapping[str, Any]
    """Author's settings from aion.yaml, which are added to the session's state."""
    memory: BaseMemoryService
    credentials: BaseCredentialService
    remotes: Remotes
    """Remote agents of aion.yaml, which a RemoteA2aAgent may name instead of the URL of a card."""
