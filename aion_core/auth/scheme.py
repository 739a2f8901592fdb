"""Base of the authentication schemes.

A scheme is one model in one file of `aion_core.auth.schemes`: its configuration in aion.yaml, its form on the agent card, its
verifier and its challenge. `SCHEMES` there lists all schemes.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar, Protocol

from a2a.types import a2a_pb2 as pb
from pydantic import AfterValidator, BaseModel, ConfigDict

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import Principal
from aion_core.ports import ApiKeys, Clock
from aion_core.protocol.types import SecurityScheme

REALM = "aion"
_LOOPBACK = r"http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/\S*)?"


class AuthFailure(Enum):
    """Reason of a failed verification."""

    MISSING = "missing"
    """The request has no credentials of the scheme."""
    INVALID = "invalid"
    """The credentials are wrong."""
    UNAVAILABLE = "unavailable"
    """The data for the verification cannot be read now."""
    TOO_MANY_ATTEMPTS = "too many attempts"
    """The credentials were not verified: too many wrong passwords preceded them."""


class Verifier(Protocol):
    """Verifier of the credentials of one scheme."""

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the authenticated principal, or the reason of the failure; raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class VerifierResources:
    """Resources of the deployment for the verifiers."""

    clock: Clock
    api_keys: Callable[[], ApiKeys]
    """Opens the store of API keys."""
    basic_users: Callable[[], Mapping[str, str]]
    """Reads the password hashes by user name. Blocking; raises ConfigurationError."""


class Scheme(BaseModel):
    """An authentication scheme, as aion.yaml configures it."""

    # An unknown key is an error: a typing mistake must not turn a setting off.
    model_config = ConfigDict(extra="forbid", frozen=True)

    has_scopes: ClassVar[bool] = False
    """True if the credentials carry scopes."""
    in_authorization_header: ClassVar[bool] = True
    """True if the credentials are in `Authorization`; a request has one such header."""
    verified_by_aws: ClassVar[bool] = False
    """True if the HTTP entry point verifies the credentials before it invokes the function."""

    type: str
    """Type in aion.yaml; a subclass gives it as a `Literal` with a default."""
    description: str = ""
    """Description on the card."""

    @property
    def identity(self) -> str:
        """Return the value unique among the schemes of a policy."""
        return self.type

    def duplicate_error(self, names: Sequence[str]) -> str:
        """Return the error text for schemes with the same identity, called `names`."""
        return f"{' and '.join(names)} are of one type; one such scheme is enough."

    @abstractmethod
    def on_card(self) -> SecurityScheme:
        """Return the scheme's form on the card (A2A 4.5)."""

    @abstractmethod
    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge in `WWW-Authenticate` (RFC 9110, 11.6.1).

        `is_invalid`: the request had wrong credentials of the scheme. `missing_scopes`: the scopes missing for access, empty
        if the policy cannot name them, None unless the response has status 403.
        """

    @abstractmethod
    def verifier(self, resources: VerifierResources) -> Verifier:
        """Return a verifier; the place of imports needed by this scheme alone. Raises ConfigurationError."""


def http_scheme(scheme: str, description: str, bearer_format: str | None = None) -> SecurityScheme:
    """Return the card's form of a scheme of `Authorization`."""
    return SecurityScheme(
        http_auth_security_scheme=pb.HTTPAuthSecurityScheme(
            scheme=scheme, bearer_format=bearer_format, description=description or None
        )
    )


def _trusted_url(url: str) -> str:
    if not re.fullmatch(rf"https://[^\s/?#@]+(/[^\s?#]*)?|{_LOOPBACK}", url):
        raise ValueError(f"{url!r} has to be an https URL without a query (http on loopback only)")
    return url


TrustedUrl = Annotated[str, AfterValidator(_trusted_url)]
