"""API key of the developer, made where callers need one."""

import asyncio
from collections.abc import Mapping

from aion_core.agents.config import AgentConfig
from aion_core.agents.security import read_auth_policies
from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.bootstrap.operator import build_keys
from aion_core.clock import SystemClock
from aion_core.settings import Settings


def development_header(agents: Mapping[str, AgentConfig], settings: Settings) -> str:
    """Make a key that opens every agent, where keys are what they ask for; return the header that bears it."""
    asked_for = [
        (scheme.header, requirement[name])
        for policy in read_auth_policies(agents).values()
        for requirement in policy.require
        for name in requirement
        if isinstance(scheme := policy.schemes[name], ApiKeyScheme)
    ]
    if not asked_for:
        return ""
    scopes = frozenset(scope for _, scopes in asked_for for scope in scopes)
    made = make_key("developer", now=SystemClock().now(), scopes=scopes)
    asyncio.run(build_keys(settings).add(made.record))
    return f"{asked_for[0][0]}: {made.text}"
