"""Agent cards made of the configuration in aion.yaml."""

from collections.abc import Mapping, Sequence

from a2a.types import a2a_pb2 as pb

from aion_core.auth.policy import AuthPolicy, Requirement
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.card import Skill
from aion_core.protocol.card import AgentDescription, CardCapabilities, CardSecurity, build_card, extend_card
from aion_core.protocol.media_types import Modes
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
    policy: AuthPolicy | None = None,
) -> AgentCard:
    """Return the public card of an agent served below `base_url`, including its auth policy.

    `delivers` is True if the deployment sends push notifications.
    """
    required = policy.skills if policy else {}
    capabilities = config.capabilities
    return build_card(
        AgentDescription(
            config.name or agent_id,
            config.description,
            config.version,
            documentation_url=config.documentation_url or "",
            icon_url=config.icon_url or "",
            provider=AgentProvider(**config.provider.model_dump()) if config.provider else None,
        ),
        f"{base_url}/" if at_root else f"{base_url}/agents/{agent_id}/",
        modes=Modes(tuple(config.input_modes), tuple(config.output_modes)),
        skills=_skills(config.skills, required),
        capabilities=CardCapabilities(
            streaming=capabilities.streaming,
            push_notifications=delivers and capabilities.push_notifications,
            extended=capabilities.extended_agent_card,
            extensions=[AgentExtension(**extension.as_declared()) for extension in capabilities.extensions],
            aion_extensions=capabilities.aion_extensions,
        ),
        security=CardSecurity(card_schemes(policy), card_requirements(policy.require)) if policy else None,
    )


def extended_card(card: AgentCard, config: AgentConfig, policy: AuthPolicy | None = None) -> AgentCard | None:
    """Return the extended card of an agent; None if aion.yaml declares no extended card for the agent."""
    more = config.extended_card if config.capabilities.extended_agent_card else None
    if more is None:
        return None
    return extend_card(
        card,
        name=more.name,
        description=more.description,
        version=more.version,
        skills=_skills(more.skills, policy.skills if policy else {}),
    )


def _skills(skills: Sequence[Skill], required: Mapping[str, Sequence[Requirement]]) -> list[AgentSkill]:
    return [
        AgentSkill(
            **skill.model_dump(exclude={"require"}), security_requirements=card_requirements(required.get(skill.id, ()))
        )
        for skill in skills
    ]


def card_schemes(policy: AuthPolicy) -> dict[str, SecurityScheme]:
    """Return the card's security schemes. The card omits schemes of the policy that no requirement names."""
    return {name: scheme.on_card() for name, scheme in policy.required_schemes.items()}


def card_requirements(require: Sequence[Requirement]) -> list[SecurityRequirement]:
    """Convert the requirements of an auth policy to the card's form, in the same order."""
    return [
        SecurityRequirement(schemes={name: pb.StringList(list=sorted(scopes)) for name, scopes in each.items()})
        for each in require
    ]
