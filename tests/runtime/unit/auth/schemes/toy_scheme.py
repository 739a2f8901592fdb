"""Deployment with a further authentication scheme: one class and one entry in `SCHEMES`. Prints its responses as JSON.

A program of its own: the entry must precede the import of aion.yaml's models.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Literal

from aion_core.auth import schemes
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import Principal
from aion_core.auth.scheme import AuthFailure, Scheme, VerifierResources, http_scheme
from aion_core.protocol.types import SecurityScheme


class ToyScheme(Scheme):
    """Scheme that accepts callers with the configured password."""

    type: Literal["toy"] = "toy"
    password: str

    def on_card(self) -> SecurityScheme:
        return http_scheme("Toy", self.description)

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        return 'Toy realm="aion"' + (', error="wrong"' if is_invalid else "")

    def verifier(self, resources: VerifierResources) -> "ToyScheme":
        return self

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        if not credentials.has_authorization("Toy"):
            return AuthFailure.MISSING
        is_right = credentials.authorization("Toy") == self.password
        return Principal("urn:toy", "alice") if is_right else AuthFailure.INVALID


async def _responses(folder: Path) -> dict[str, object]:
    from tests.runtime.unit.auth.guarded import guarded, scheme
    from tests.support.service import http

    found: dict[str, object] = {}
    async with http(guarded(folder, scheme("toy", type="toy", password="open", description="Say open."))) as client:
        for name, header in (("missing", ""), ("wrong", "Toy shut"), ("right", "Toy open")):
            response = await client.get("/tasks", headers={"Authorization": header} if header else {})
            found[name] = [response.status_code, response.headers.get("www-authenticate")]
        found["card"] = (await client.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    return found


if __name__ == "__main__":
    schemes.SCHEMES = (*schemes.SCHEMES, ToyScheme)
    print(json.dumps(asyncio.run(_responses(Path(sys.argv[1])))))
