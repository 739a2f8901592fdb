"""Tenants: valid names, and the owner of a tenant's tasks."""

import hashlib
import json
import re

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


def owner_in(principal: str, tenant: str) -> str:
    """Return the owner id of a principal's tasks in a tenant. Without a tenant it is the principal's own id."""
    if not tenant:
        return principal
    # Hash both names together, so that no tenant name can produce the owner id of another principal.
    pair = json.dumps([principal, tenant]).encode()
    return f"tenant:{hashlib.sha256(pair).hexdigest()}"
