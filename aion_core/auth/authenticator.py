"""Authentication of requests: verifies their credentials, and grants or refuses access by the agent's auth policy."""

import asyncio
import logging
from collections.abc import Mapping

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.decision import AccessDenied, AccessGranted, decide
from aion_core.auth.policy import AuthPolicy
from aion_core.auth.scheme import AuthFailure, Scheme, Verifier, VerifierResources

logger = logging.getLogger(__name__)


class Authenticator:
    """Authenticates the callers of one agent."""

    def __init__(self, agent_id: str, policy: AuthPolicy, verifiers: Mapping[str, Verifier]) -> None:
        """Authenticate by the agent's policy. `verifiers` has a verifier for each required scheme, by its name."""
        self._agent_id, self.policy = agent_id, policy
        self._verifiers = {name: verifiers[name] for name in policy.required_schemes}

    async def authenticate(self, credentials: RequestCredentials) -> AccessGranted | AccessDenied:
        """Verify a request's credentials, and grant or refuse access to the agent. Raises StoreError."""
        found = await asyncio.gather(*(verifier.verify(credentials) for verifier in self._verifiers.values()))
        results = dict(zip(self._verifiers, found, strict=True))
        decision = decide(self.policy, results, self._agent_id)
        if isinstance(decision, AccessDenied):
            reasons = ", ".join(
                f"{name}: {result.value if isinstance(result, AuthFailure) else 'verified'}"
                for name, result in results.items()
            )
            logger.info("Refused with %s for %s: %s", decision.status, self._agent_id, reasons)
        return decision


def build_authenticators(policies: Mapping[str, AuthPolicy], resources: VerifierResources) -> dict[str, Authenticator]:
    """Return an authenticator for each agent id. Agents with equal schemes share a verifier.

    Raises ConfigurationError, for example if the users of HTTP Basic cannot be read.
    """
    verifiers: dict[Scheme, Verifier] = {}

    def verifier_of(scheme: Scheme) -> Verifier:
        # Ignore the description, so that schemes that differ only in it share a verifier.
        key = scheme.model_copy(update={"description": ""})
        if key not in verifiers:
            verifiers[key] = scheme.verifier(resources)
        return verifiers[key]

    return {
        agent_id: Authenticator(
            agent_id, policy, {name: verifier_of(scheme) for name, scheme in policy.required_schemes.items()}
        )
        for agent_id, policy in policies.items()
    }


def www_authenticate(policy: AuthPolicy, denied: AccessDenied) -> str:
    """Return the value of the `WWW-Authenticate` header: one challenge per required scheme (RFC 9110, 11.6.1)."""
    missing_scopes = denied.scopes if denied.status == 403 else None
    challenges = dict.fromkeys(
        scheme.challenge(is_invalid=name in denied.invalid, missing_scopes=missing_scopes)
        for name, scheme in policy.required_schemes.items()
    )
    # Join all challenges in one header value, because on Lambda a response header can have only one value.
    return ", ".join(challenges)
