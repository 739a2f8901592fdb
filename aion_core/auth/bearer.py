"""Bearer tokens: JSON Web Tokens of a declared issuer, verified as RFC 8725 has it (R5).

Which algorithms may be used, and where keys are, is the declaration's to say: of what a token says of itself only `kid`
is looked at before its signature holds, to choose among the issuer's keys.
"""

import logging
from collections.abc import Mapping
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from aion_core.auth.decision import Unproven
from aion_core.auth.declaration import Jwt
from aion_core.auth.jwks import Keys, KeysUnavailable
from aion_core.auth.presented import Presented
from aion_core.auth.principal import Principal

logger = logging.getLogger(__name__)

LEEWAY_SECONDS = 60
REQUIRED = ("exp", "iat", "iss", "aud", "sub")
MAX_SUBJECT = 512


class BearerVerifier:
    """Says whom an issuer's token is about."""

    def __init__(self, scheme: Jwt, keys: Keys) -> None:
        self._scheme, self._keys = scheme, keys

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return the token's subject, or why there is none; what is wrong with a token is said in the log only."""
        if not presented.speaks("Bearer"):
            return Unproven.MISSING
        token = presented.authorization("Bearer")
        try:
            return await self._principal(token)
        except KeysUnavailable:
            return Unproven.UNKNOWN
        except (PyJWTError, ValueError, RecursionError) as error:
            # The class alone: an error's text may quote the token.
            logger.info("A bearer token of %s is refused: %s", self._scheme.issuer, type(error).__name__)
            return Unproven.INVALID

    async def _principal(self, token: str) -> Principal | Unproven:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._scheme.algorithms or not isinstance(key_id, str):
            return Unproven.INVALID
        # Before a key is asked for: another issuer's token is not this one's business.
        said = jwt.decode(token, options={"verify_signature": False})
        if said.get("iss") != self._scheme.issuer:
            return Unproven.INVALID
        key = await self._keys.key(key_id)
        if key is None or key.algorithm_name != algorithm:
            return Unproven.INVALID
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._scheme.audience,
            issuer=self._scheme.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(REQUIRED)},
        )
        return self._said_by(claims)

    def _said_by(self, claims: Mapping[str, Any]) -> Principal | Unproven:
        subject = claims["sub"]
        tenant = claims.get(self._scheme.tenant_claim, "") if self._scheme.tenant_claim else ""
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            return Unproven.INVALID
        if not isinstance(tenant, str) or (self._scheme.tenant_claim and not tenant):
            return Unproven.INVALID
        return Principal(self._scheme.issuer, subject, tenant, self._scopes(claims))

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Return the scopes: a text with spaces (RFC 8693), or a list."""
        names = [self._scheme.scope_claim] if self._scheme.scope_claim else ["scope", "scp"]
        said = next((claims[name] for name in names if name in claims), "")
        words = said.split(" ") if isinstance(said, str) else said if isinstance(said, list) else []
        return frozenset(word for word in words if isinstance(word, str) and word)
