"""Principal: the authenticated caller, and the owner of the caller's tasks."""

import hashlib
import json
from dataclasses import dataclass

API_KEY_ISSUER = "urn:aion:api-key"
BASIC_ISSUER = "urn:aion:basic"
IAM_ISSUER = "urn:aws:iam"
"""Issuer of subjects without a token; the issuer of a token is a URL."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A subject of an issuer, with the limits of its credentials."""

    issuer: str
    subject: str
    tenant: str = ""
    """Tenant of the credentials; the caller cannot name another tenant. Empty: the caller chooses."""
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    """Agents permitted by the credentials; None for all."""

    @property
    def owner(self) -> str:
        """Return the owner of the principal's data outside tenants: the same for the same issuer and subject.

        The hash covers a JSON list, so no choice of a subject collides with another issuer's subject.
        """
        pair = json.dumps([self.issuer, self.subject]).encode()
        return f"principal:{hashlib.sha256(pair).hexdigest()}"
