"""Who calls an agent, and whether they may: each scheme that is needed is asked, then it is decided."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from aion_core.auth.decision import Allowed, Refused, Unproven, decide
from aion_core.auth.declaration import Security
from aion_core.auth.presented import Presented
from aion_core.auth.principal import Principal

logger = logging.getLogger(__name__)


class Verifier(Protocol):
    """What knows one scheme."""

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return who the credentials prove the caller to be, or why nobody; the answer names no credentials.

        Raises StoreError.
        """
        ...


class Guard:
    """Stands before one agent."""

    def __init__(self, agent_id: str, security: Security, verifiers: Mapping[str, Verifier]) -> None:
        """`verifiers`: one for each scheme that is needed, by its name."""
        self._agent_id, self.security = agent_id, security
        self._verifiers = {name: verifiers[name] for name in security.needed}

    async def admit(self, presented: Presented) -> Allowed | Refused:
        """Return whether the caller may use the agent, and as whom; raises StoreError."""
        found = await asyncio.gather(*(verifier.verify(presented) for verifier in self._verifiers.values()))
        proven = dict(zip(self._verifiers, found, strict=True))
        decided = decide(self.security, proven, self._agent_id)
        if isinstance(decided, Refused):
            why = ", ".join(
                f"{name}: {what.value if isinstance(what, Unproven) else 'proven'}" for name, what in proven.items()
            )
            logger.info("Refused with %s for %s: %s", decided.status, self._agent_id, why)
        return decided
