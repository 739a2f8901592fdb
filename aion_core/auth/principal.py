"""Identity of an authenticated caller (principal), its tenant, and the owner id of the caller's stored tasks."""

import hashlib
import json
import re

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


def owner_in(principal: str, tenant: str) -> str:
    """Return the owner id of a principal's tasks in a tenant. Without a tenant it is the principal's own id."""
    if not tenant:
        return principal
    # Hash both names together, so that no tenant name can produce the owner id of another principal.
    pair = json.dumps([principal, tenant]).encode()
    return f"tenant:{hashlib.sha256(pair).hexdigest()}"


# ── Tenant ────────────────────────────────────────────────────────────────────────────────────────────────────────────

RESERVED = frozenset({"agents", "console", "tasks", "v1"})
"""First segments of the server's own paths. A tenant must not have these names in any letter case."""


_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+=~-]{0,127}")
TENANT_RULE = (
    "1 to 128 letters, digits or any of _ . : @ + = ~ - , and begin with a letter or a digit; "
    f"and not one of {', '.join(sorted(RESERVED))}"
)
"""Rule for a tenant's name, for errors."""


def is_tenant(name: str) -> bool:
    """Return True if the text is a valid tenant name: it fits a path segment and is not reserved."""
    return _TENANT.fullmatch(name) is not None and name.lower() not in RESERVED
