"""Bearer tokens (RFC 6750): JSON Web Tokens of a configured issuer, verified according to RFC 8725.

The accepted algorithms and the URL of the keys come from aion.yaml, never from a token. Before the signature is
verified, only the token's `alg`, `kid` and `iss` are read: to reject invalid tokens early, and to select one of the
issuer's keys.
"""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from a2a.types import a2a_pb2 as pb
from pydantic import BeforeValidator, Field, StringConstraints

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import Principal
from aion_core.auth.scheme import REALM, AuthFailure, Scheme, TrustedUrl, VerifierResources, http_scheme
from aion_core.auth.tenants import is_tenant
from aion_core.protocol.types import SecurityScheme

if TYPE_CHECKING:
    from aion_core.auth.schemes.jwks import Fetch, IssuerKeys
    from aion_core.clock import Clock

logger = logging.getLogger(__name__)

LEEWAY_SECONDS = 60
REQUIRED_CLAIMS = ("exp", "iat", "iss", "aud", "sub")
MAX_SUBJECT = 512

# Allow only public-key algorithms, because with a shared secret (HMAC) the published key could also sign tokens.
Algorithm = Literal["RS256", "ES256", "EdDSA"]
Audience = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class JwtScheme(Scheme):
    """Base class of the schemes with an issuer's signed tokens, sent as `Authorization: Bearer`."""

    has_scopes: ClassVar[bool] = True

    issuer: TrustedUrl
    """URL of the tokens' issuer, as in their claim `iss`."""
    audience: Annotated[
        tuple[Audience, ...],
        BeforeValidator(_as_list, json_schema_input_type=Audience | tuple[Audience, ...]),
        Field(min_length=1),
    ]
    """Accepted audiences, as in the tokens' claim `aud`. A token has to name one of them."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    """Accepted algorithms of the tokens' signatures."""
    tenant_claim: str = ""
    """Name of the token's claim with the tenant. Without such a claim, callers choose their tenant."""
    scope_claim: str = ""
    """Name of the token's claim with the scopes. The default is `scope` (RFC 9068), or else `scp`."""

    @property
    @abstractmethod
    def keys_url(self) -> str:
        """Return the URL of the issuer's public keys; "" if the discovery document contains the URL."""

    @property
    def discovery_url(self) -> str:
        """Return the URL of an OpenID provider's discovery document."""
        return f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"

    @property
    def identity(self) -> str:
        """Return the issuer's URL. A policy has at most one scheme per issuer."""
        return self.issuer

    def duplicate_error(self, names: Sequence[str]) -> str:
        """Return the error text for a policy with several schemes of the same issuer."""
        return f"two schemes are of the issuer {self.issuer}; one may have several audiences."

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge `Bearer`, with an error code for an invalid token or missing scopes (RFC 6750, 3.1)."""
        challenge = f'Bearer realm="{REALM}"'
        if missing_scopes is not None:
            scopes = f', scope="{" ".join(sorted(missing_scopes))}"' if missing_scopes else ""
            return f'{challenge}, error="insufficient_scope"{scopes}'
        return f'{challenge}, error="invalid_token"' if is_invalid else challenge

    def verifier(self, resources: VerifierResources) -> "JwtVerifier":
        """Return a verifier for the issuer's tokens. It fetches the issuer's public keys when it needs them."""
        from aion_core.auth.schemes.jwks import fetch

        return JwtVerifier(self, self.issuer_keys(fetch, resources.clock))

    def issuer_keys(self, fetch: "Fetch", clock: "Clock") -> "IssuerKeys":
        """Return an empty cache of the issuer's public keys, which reads them with `fetch`."""
        from aion_core.auth.schemes.jwks import IssuerKeys

        return IssuerKeys(self.issuer, fetch, clock, keys_url=self.keys_url, discovery_url=self.discovery_url)


class BearerJwtScheme(JwtScheme):
    """Scheme of signed tokens. The issuer's public keys are at `jwks_url`."""

    type: Literal["bearer-jwt"] = "bearer-jwt"
    jwks_url: TrustedUrl
    """URL of the issuer's public keys (JSON Web Key Set)."""

    @property
    def keys_url(self) -> str:
        """Return the configured URL of the issuer's public keys."""
        return self.jwks_url

    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card."""
        return http_scheme("Bearer", self.description, "JWT")


class OidcScheme(JwtScheme):
    """Scheme of signed tokens of an OpenID provider. Its discovery document contains the URL of the public keys."""

    type: Literal["oidc"] = "oidc"
    jwks_url: TrustedUrl | None = None
    """URL of the public keys, if it is not the one in the discovery document."""

    @property
    def keys_url(self) -> str:
        """Return the configured URL of the public keys; "" to use the URL in the discovery document."""
        return self.jwks_url or ""

    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card, with the URL of the discovery document."""
        return SecurityScheme(
            open_id_connect_security_scheme=pb.OpenIdConnectSecurityScheme(
                open_id_connect_url=self.discovery_url, description=self.description or None
            )
        )


class JwtVerifier:
    """Verifier for an issuer's JSON Web Tokens."""

    def __init__(self, scheme: JwtScheme, keys: "IssuerKeys") -> None:
        self._scheme, self._keys = scheme, keys

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the principal of the token's subject, or the reason for the failure. Details are only logged."""
        from jwt.exceptions import PyJWTError

        from aion_core.auth.schemes.jwks import KeysUnavailable

        if not credentials.has_authorization("Bearer"):
            return AuthFailure.MISSING
        token = credentials.authorization("Bearer")
        try:
            return await self._principal(token)
        except KeysUnavailable:
            return AuthFailure.UNAVAILABLE
        except (PyJWTError, ValueError, RecursionError) as error:
            # Log only the type of the error, because its text may quote the token.
            logger.info("Refused a bearer token of %s: %s", self._scheme.issuer, type(error).__name__)
            return AuthFailure.INVALID

    async def _principal(self, token: str) -> Principal | AuthFailure:
        import jwt

        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._scheme.algorithms or not isinstance(key_id, str):
            return AuthFailure.INVALID
        # Check the issuer before the key, because a token of another issuer must not cause a request for this issuer's
        # keys.
        unverified = jwt.decode(token, options={"verify_signature": False})
        if unverified.get("iss") != self._scheme.issuer:
            return AuthFailure.INVALID
        key = await self._keys.key(key_id)
        if key is None or key.algorithm_name != algorithm:
            return AuthFailure.INVALID
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._scheme.audience,
            issuer=self._scheme.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(REQUIRED_CLAIMS)},
        )
        return self._principal_of(claims)

    def _principal_of(self, claims: Mapping[str, Any]) -> Principal | AuthFailure:
        subject = claims["sub"]
        tenant = claims.get(self._scheme.tenant_claim, "") if self._scheme.tenant_claim else ""
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            return AuthFailure.INVALID
        if self._scheme.tenant_claim and not (isinstance(tenant, str) and is_tenant(tenant)):
            logger.warning(
                "Refused a bearer token of %s, because its tenant claim is no tenant name.", self._scheme.issuer
            )
            return AuthFailure.INVALID
        return Principal(self._scheme.issuer, subject, tenant, self._scopes(claims))

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Return the scopes in a token's claims. The claim is a list, or a text separated by spaces (RFC 8693)."""
        names = [self._scheme.scope_claim] if self._scheme.scope_claim else ["scope", "scp"]
        value = next((claims[name] for name in names if name in claims), "")
        scopes = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else []
        return frozenset(scope for scope in scopes if isinstance(scope, str) and scope)
