"""What is declared of who may call: schemes by their names, and the combinations of them that open an agent.

A card says it in the same words (spec 4.5): what is enforced is what is advertised.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""What may sign a token (R5): public keys only, so that nobody can sign with what verifies."""

AWS4 = "AWS4-HMAC-SHA256"
"""What a request that is signed for AWS IAM begins its `Authorization` with."""


class IamOwner(StrEnum):
    """Of whom the tasks are that a session of an IAM role makes."""

    ROLE = "role"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Jwt:
    """A signed token of an issuer, sent as `Authorization: Bearer` (RFC 6750)."""

    issuer: str
    audience: tuple[str, ...]
    """Those of whom the token has to name one."""
    algorithms: tuple[str, ...] = ALGORITHMS
    jwks_url: str = ""
    """Where the issuer's keys are; what its discovery document says where this is empty."""
    is_oidc: bool = False
    """Whether the issuer is an OpenID provider, whose discovery document a client may read too."""
    tenant_claim: str = ""
    """The claim that says in which tenant the subject is; without one, callers choose."""
    scope_claim: str = ""
    """The claim with the scopes; `scope` (RFC 9068), else `scp`, where nothing is said."""

    @property
    def discovery_url(self) -> str:
        """Where an OpenID provider describes itself."""
        return f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of ours, sent in a header of its own."""

    header: str = "X-API-Key"


@dataclass(frozen=True, slots=True)
class Basic:
    """A name and a password, sent as `Authorization: Basic` (RFC 7617)."""


@dataclass(frozen=True, slots=True)
class AwsIam:
    """AWS has checked the request's signature: API Gateway or a Function URL, before this code is called."""

    owner: IamOwner = IamOwner.ROLE


Scheme = Jwt | ApiKey | Basic | AwsIam

Requirement = Mapping[str, frozenset[str]]
"""Schemes that are needed together, by their names, each with the scopes that it has to give."""


@dataclass(frozen=True, slots=True)
class Security:
    """Who may call an agent."""

    schemes: Mapping[str, Scheme]
    require: tuple[Requirement, ...]
    """One of these is enough."""
    skills: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    """What those skills need beyond that, of which any is said."""
    has_open_skill: bool = True
    """Whether the agent has a skill that needs no more than the agent does."""

    @property
    def needed(self) -> dict[str, Scheme]:
        """The schemes of which some requirement speaks: no other is asked for, or advertised."""
        named = {name for each in (self.require, *self.skills.values()) for alternative in each for name in alternative}
        return {name: scheme for name, scheme in self.schemes.items() if name in named}
