"""API key for the developer."""

import asyncio
from collections.abc import Mapping

from aion_core.agents.config import AgentConfig
from aion_core.agents.security import declared_securities
from aion_core.auth.api_keys import make_key
from aion_core.auth.declaration import ApiKey
from aion_core.bootstrap.operator import build_keys
from aion_core.clock import SystemClock
from aion_core.settings import Settings


def development_header(agents: Mapping[str, AgentConfig], settings: Settings) -> str:
    """Create an API key with access to every agent and return its HTTP header; "" if no agent accepts API keys."""
    required = [
        (scheme.header, requirement[name])
        for security in declared_securities(agents).values()
        for requirement in security.require
        for name in requirement
        if isinstance(scheme := security.schemes[name], ApiKey)
    ]
    if not required:
        return ""
    scopes = frozenset(scope for _, scopes in required for scope in scopes)
    made = make_key("developer", now=SystemClock().now(), scopes=scopes)
    asyncio.run(build_keys(settings).add(made.record))
    return f"{required[0][0]}: {made.text}"
