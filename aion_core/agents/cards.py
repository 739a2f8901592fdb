"""Agent cards, made from the configuration in aion.yaml."""

from collections.abc import Mapping, Sequence

from a2a.types import a2a_pb2 as pb

from aion_core.agents.config import AgentConfig
from aion_core.agents.config_sections import Skill
from aion_core.auth.declaration import AWS4, ApiKey, AwsIam, Basic, Jwt, Requirement, Scheme, Security
from aion_core.protocol.card import build_card, extend_card
from aion_core.protocol.types import (
    AgentCard,
    AgentExtension,
    AgentProvider,
    AgentSkill,
    SecurityRequirement,
    SecurityScheme,
)


def public_card(
    agent_id: str,
    config: AgentConfig,
    base_url: str,
    *,
    at_root: bool,
    delivers: bool = True,
    security: Security | None = None,
) -> AgentCard:
    """Return the public card of an agent below `base_url`, with its auth policy in `security`.

    `delivers`: the deployment delivers push notifications, as the template's does.
    """
    required = security.skills if security else {}
    return build_card(
        name=config.name or agent_id,
        description=config.description,
        version=config.version,
        url=f"{base_url}/" if at_root else f"{base_url}/agents/{agent_id}/",
        streaming=config.capabilities.streaming,
        skills=_skills(config.skills, required),
        input_modes=config.input_modes,
        output_modes=config.output_modes,
        documentation_url=config.documentation_url or "",
        icon_url=config.icon_url or "",
        provider=AgentProvider(**config.provider.model_dump()) if config.provider else None,
        extensions=[AgentExtension(**extension.as_declared()) for extension in config.capabilities.extensions],
        extended=config.capabilities.extended_agent_card,
        push_notifications=delivers and config.capabilities.push_notifications,
        security_schemes=card_schemes(security, _described(config)) if security else None,
        security_requirements=card_requirements(security.require) if security else (),
    )


def extended_card(card: AgentCard, config: AgentConfig, security: Security | None = None) -> AgentCard | None:
    """Return the extended card, None for an agent without one."""
    more = config.extended_card if config.capabilities.extended_agent_card else None
    if more is None:
        return None
    return extend_card(
        card,
        name=more.name,
        description=more.description,
        version=more.version,
        skills=_skills(more.skills, security.skills if security else {}),
    )


def _skills(skills: Sequence[Skill], required: Mapping[str, Sequence[Requirement]]) -> list[AgentSkill]:
    return [
        AgentSkill(
            **skill.model_dump(exclude={"require"}), security_requirements=card_requirements(required.get(skill.id, ()))
        )
        for skill in skills
    ]


def _described(config: AgentConfig) -> dict[str, str]:
    schemes = config.security.schemes if config.security else {}
    return {name: scheme.description for name, scheme in schemes.items()}


# ── Security of the card ──────────────────────────────────────────────────────────────────────────────────────────────

_DESCRIPTIONS: Mapping[type[Scheme], str] = {
    AwsIam: "Requests signed with AWS credentials (Signature Version 4).",
}
"""Descriptions of schemes with a name that does not explain their use."""


def card_schemes(security: Security, described: Mapping[str, str]) -> dict[str, SecurityScheme]:
    """Return the card's schemes for the required ones, with the author's descriptions."""
    return {name: _scheme(scheme, described.get(name, "")) for name, scheme in security.needed.items()}


def card_requirements(require: Sequence[Requirement]) -> list[SecurityRequirement]:
    """Return the card's security requirements, in order."""
    return [
        SecurityRequirement(schemes={name: pb.StringList(list=sorted(scopes)) for name, scopes in each.items()})
        for each in require
    ]


def _scheme(scheme: Scheme, described: str) -> SecurityScheme:
    description = described or _DESCRIPTIONS.get(type(scheme), "")
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
