"""Authenticated caller of an agent."""

import hashlib
import json

from msgspec import Struct

ANONYMOUS = "anonymous"
"""Owner of all calls to an agent without an auth scheme; deployed agents must have a scheme."""

API_KEY_ISSUER = "urn:aion:api-key"
BASIC_ISSUER = "urn:aion:basic"
IAM_ISSUER = "urn:aws:iam"
"""Issuers of principals that are authenticated without a token. They are no URLs, so they differ from every token's
issuer."""


class Principal(Struct, frozen=True):
    """Authenticated caller: a subject of an issuer, with the tenant, scopes and agents that its credentials permit."""

    issuer: str
    subject: str
    tenant: str = ""
    """Tenant of the credentials. The caller cannot use another tenant. If it is empty, the caller chooses a tenant."""
    scopes: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None
    """Ids of the agents permitted by the credentials, or None for all agents."""

    @property
    def owner(self) -> str:
        """Return the owner id of tasks that the principal creates without a tenant, computed from issuer and subject.

        The id is a hash of a JSON list, so that subjects of different issuers have different ids.
        """
        pair = json.dumps([self.issuer, self.subject]).encode()
        return f"principal:{hashlib.sha256(pair).hexdigest()}"
