"""Who may call, in the card's words (spec 4.5): only what is asked for stands in it."""

from collections.abc import Mapping, Sequence

from a2a.types import a2a_pb2 as pb

from aion_core.auth.declaration import AWS4, ApiKey, AwsIam, Basic, Jwt, Requirement, Scheme, Security
from aion_core.protocol.types import SecurityRequirement, SecurityScheme

_DESCRIPTIONS: Mapping[type[Scheme], str] = {
    AwsIam: "Requests signed with AWS credentials (Signature Version 4).",
}
"""Where the card's own words do not say how to do it."""


def card_schemes(security: Security, described: Mapping[str, str]) -> dict[str, SecurityScheme]:
    """Return the schemes that are asked for; `described` says more of some of them."""
    return {name: _scheme(scheme, described.get(name, "")) for name, scheme in security.needed.items()}


def card_requirements(require: Sequence[Requirement]) -> list[SecurityRequirement]:
    """Return the requirements, in their order."""
    return [
        SecurityRequirement(schemes={name: pb.StringList(list=sorted(scopes)) for name, scopes in each.items()})
        for each in require
    ]


def _scheme(scheme: Scheme, said: str) -> SecurityScheme:
    description = said or _DESCRIPTIONS.get(type(scheme), "")
    match scheme:
        case ApiKey(header=header):
            return SecurityScheme(
                api_key_security_scheme=pb.APIKeySecurityScheme(
                    location="header", name=header, description=description or None
                )
            )
        case Jwt(is_oidc=True):
            return SecurityScheme(
                open_id_connect_security_scheme=pb.OpenIdConnectSecurityScheme(
                    open_id_connect_url=scheme.discovery_url, description=description or None
                )
            )
        case Jwt():
            return _http("Bearer", description, "JWT")
        case Basic():
            return _http("Basic", description)
        case AwsIam():
            return _http(AWS4, description)


def _http(scheme: str, description: str, bearer_format: str | None = None) -> SecurityScheme:
    return SecurityScheme(
        http_auth_security_scheme=pb.HTTPAuthSecurityScheme(
            scheme=scheme, bearer_format=bearer_format, description=description or None
        )
    )
