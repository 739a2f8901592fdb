"""What aion.yaml says of who may call: `aion.security`, and an agent's own."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints

from aion_core.agents.card_config import STRICT, AgentMessage, RequirementConfig, SchemeName
from aion_core.auth.declaration import ALGORITHMS, IamOwner

HEADER = r"^[A-Za-z][A-Za-z0-9-]{0,63}$"
_LOOPBACK = r"http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/\S*)?"
_NOT_FOR_KEYS = frozenset(
    {"authorization", "cookie", "host", "content-type", "content-length", "accept", "user-agent", "a2a-version"}
)


def _trusted(url: str) -> str:
    if not re.fullmatch(rf"https://[^\s/?#@]+(/[^\s?#]*)?|{_LOOPBACK}", url):
        raise ValueError(f"{url!r} has to be an https URL without a query (http on loopback only)")
    return url


def _own_header(name: str) -> str:
    if name.lower() in _NOT_FOR_KEYS or name.lower().startswith(("x-amz", "x-forwarded", "a2a-", "x-a2a-")):
        raise ValueError(f"{name} has another meaning; X-API-Key is usual")
    return name


def _several(said: object) -> object:
    return [said] if isinstance(said, str) else said


TrustedUrl = Annotated[str, AfterValidator(_trusted)]
Algorithm = Literal["RS256", "ES256", "EdDSA"]


class _Strict(BaseModel):
    model_config = STRICT
    description: str = ""
    """What the card says of the scheme."""


class _Tokens(_Strict):
    issuer: TrustedUrl
    audience: Annotated[list[AgentMessage], BeforeValidator(_several), Field(min_length=1)]
    algorithms: Annotated[list[Algorithm], Field(min_length=1)] = [*ALGORITHMS]  # type: ignore[list-item]
    tenant_claim: str = ""
    scope_claim: str = ""


class BearerJwtConfig(_Tokens):
    """Signed tokens of an issuer, whose keys are at `jwks_url`."""

    type: Literal["bearer-jwt"]
    jwks_url: TrustedUrl


class OidcConfig(_Tokens):
    """Signed tokens of an OpenID provider, which says itself where its keys are."""

    type: Literal["oidc"]
    jwks_url: TrustedUrl | None = None


class ApiKeyConfig(_Strict):
    """Keys of this deployment, made by `aion key create`."""

    type: Literal["api-key"]
    header: Annotated[str, StringConstraints(pattern=HEADER), AfterValidator(_own_header)] = "X-API-Key"


class BasicConfig(_Strict):
    """Names and passwords; their hashes are in a secret."""

    type: Literal["basic"]


class AwsIamConfig(_Strict):
    """Requests that are signed with AWS credentials, as API Gateway or a Function URL checks them."""

    type: Literal["aws-iam"]
    owner: IamOwner = IamOwner.ROLE
    """Whose tasks are those of a role's session: the `role`'s, or the `session`'s alone."""


SchemeConfig = Annotated[
    BearerJwtConfig | OidcConfig | ApiKeyConfig | BasicConfig | AwsIamConfig, Field(discriminator="type")
]

SCHEME_TYPES = ("bearer-jwt", "oidc", "api-key", "basic", "aws-iam")


class SecurityConfig(BaseModel):
    """Who may call: of the whole deployment, or of one agent, whose word goes first."""

    model_config = STRICT

    schemes: Mapping[SchemeName, SchemeConfig] = {}
    require: list[RequirementConfig] | None = None
    """One of them is enough; where nothing is said, any one scheme is."""
