"""Base class of the authentication schemes.

A scheme is a pydantic model in a file of `aion_core.auth.schemes`. It defines the configuration in aion.yaml, the entry
in the agent card, the verifier and the challenge. `aion_core.auth.schemes.SCHEMES` lists all schemes.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, ClassVar, Protocol

from a2a.types import a2a_pb2 as pb
from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import Principal
from aion_core.clock import Clock
from aion_core.protocol.types import SecurityScheme

REALM = "aion"
_LOOPBACK = r"http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/\S*)?"


class AuthFailure(Enum):
    """Reason why credentials could not be verified."""

    MISSING = "missing"
    """The request has no credentials of the scheme."""
    INVALID = "invalid"
    """The credentials are wrong."""
    UNAVAILABLE = "unavailable"
    """The verifier cannot read its data now, such as the issuer's signing keys."""
    TOO_MANY_ATTEMPTS = "too many attempts"
    """The credentials were not verified, since too many wrong passwords preceded them."""


class Verifier(Protocol):
    """Verifier that each scheme provides for its credentials."""

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Verify the credentials. Return the principal, or the reason for the failure. Raises StoreError."""
        ...


class VerifierResources(Struct, frozen=True):
    """Resources of a deployment that verifiers use: clock, API keys and users."""

    clock: Clock
    api_keys: Callable[[], ApiKeys]
    """Function to open the store of API keys."""
    basic_users: Callable[[], Mapping[str, str]]
    """Blocking function to read the password hashes by user name. It raises ConfigurationError."""


class Scheme(BaseModel):
    """Authentication scheme, as configured in aion.yaml."""

    # Refuse unknown keys, because a misspelled setting would otherwise be ignored.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    has_scopes: ClassVar[bool] = False
    """True if the credentials of the scheme contain scopes."""
    in_authorization_header: ClassVar[bool] = True
    """True if the credentials are in the `Authorization` header. A request has one such header."""
    verified_by_aws: ClassVar[bool] = False
    """True if the HTTP entry point verifies the credentials before it invokes the function."""

    type: str
    """Name of the scheme's type in aion.yaml. A subclass declares it as a `Literal` with a default."""
    description: str = ""
    """Help for callers in the agent card, for example the way to get credentials."""

    @property
    def identity(self) -> str:
        """Return the text that must be unique among the schemes of one policy, such as a token issuer's URL."""
        return self.type

    @property
    def request_headers(self) -> tuple[str, ...]:
        """Return the names of the request headers that contain the scheme's credentials."""
        return ("Authorization",)

    def duplicate_error(self, names: Sequence[str]) -> str:
        """Return the error text for a policy in which the schemes with these names have the same identity."""
        return f"{' and '.join(names)} are of one type; one such scheme is enough."

    @abstractmethod
    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card (A2A 4.5)."""

    @abstractmethod
    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the scheme's challenge for the `WWW-Authenticate` header (RFC 9110, 11.6.1).

        `is_invalid` is True if the request had wrong credentials for the scheme. `missing_scopes` has the scopes that
        are missing for access; it is None unless the response has status 403, and empty if the policy cannot name them.
        """

    @abstractmethod
    def verifier(self, resources: VerifierResources) -> Verifier:
        """Return a verifier for the scheme's credentials. Raises ConfigurationError.

        An implementation imports the scheme's libraries in this method, so that deployments without the scheme do not
        load them.
        """


def http_scheme(scheme: str, description: str, bearer_format: str | None = None) -> SecurityScheme:
    """Return the agent card's entry for a scheme whose credentials are in the `Authorization` header."""
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
