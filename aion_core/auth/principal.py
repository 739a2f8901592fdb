"""Principal: identity of an authenticated caller, with the owner id of the caller's tasks."""

import hashlib
import json

from msgspec import Struct

API_KEY_ISSUER = "urn:aion:api-key"
BASIC_ISSUER = "urn:aion:basic"
IAM_ISSUER = "urn:aws:iam"
"""Issuers of principals without a token. The issuer of a token is a URL."""


class Principal(Struct, frozen=True):
    """Authenticated caller: a subject of an issuer, and the limits of its credentials."""

    issuer: str
    subject: str
    tenant: str = ""
    """Tenant of the credentials. The caller cannot use another tenant. If it is empty, the caller chooses a tenant."""
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    """Ids of the agents permitted by the credentials, or None for all agents."""

    @property
    def owner(self) -> str:
        """Return the owner id of the principal's tasks outside tenants. Only issuer and subject determine it.

        The id is a hash of a JSON list, so that subjects of different issuers have different ids.
        """
        pair = json.dumps([self.issuer, self.subject]).encode()
        return f"principal:{hashlib.sha256(pair).hexdigest()}"
