"""A tenant: a part of who owns things, so that the tasks of one are unknown to another (spec 3.1, R9 of security)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.limits import ID_RULE, is_id

RESERVED = frozenset({"agents", "v1"})
"""What stands in a tenant's place in other paths, in whatever case: agents by their ids, and v0.3's REST binding."""


def is_tenant(name: str) -> bool:
    """Tell whether the text may name a tenant: an id that is one segment of a path, and means nothing else there."""
    return is_id(name) and "/" not in name and name.lower() not in RESERVED


def tenant_of(params: Mapping[str, Any], in_path: str = "") -> str:
    """Return the tenant that the request names, in its path or its params; "" for none.

    Raises InvalidParamsError where the two contradict each other, and for what can be no tenant.
    """
    given = params.get("tenant") or ""
    if not isinstance(given, str):
        raise invalid_params("tenant has to be a text.", "tenant")
    if given and in_path and given != in_path:
        raise invalid_params(
            "tenant is another in the request than in its path: give the same, or one of them.", "tenant"
        )
    tenant = given or in_path
    if tenant and not is_tenant(tenant):
        raise invalid_params(
            f"tenant has to be {ID_RULE}; without '/', and none of {', '.join(sorted(RESERVED))}.", "tenant"
        )
    return tenant


def owner_in(principal: str, tenant: str) -> str:
    """Return who owns what the principal makes in the tenant; without a tenant that is the principal itself."""
    if not tenant:
        return principal
    # Hashed as a pair, so that no choice of a tenant's name makes one principal's things another's.
    pair = json.dumps([principal, tenant]).encode()
    return f"tenant:{hashlib.sha256(pair).hexdigest()}"
