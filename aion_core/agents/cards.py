"""An agent's cards, as its lines of aion.yaml declare them."""

from collections.abc import Mapping, Sequence

from aion_core.agents.card_config import Skill
from aion_core.agents.config import AgentConfig
from aion_core.agents.security_cards import card_requirements, card_schemes
from aion_core.auth.declaration import Requirement, Security
from aion_core.protocol.card import build_card, extend_card
from aion_core.protocol.types import AgentCard, AgentExtension, AgentProvider, AgentSkill


def public_card(
    agent_id: str,
    config: AgentConfig,
    base_url: str,
    *,
    at_root: bool,
    delivers: bool = True,
    security: Security | None = None,
) -> AgentCard:
    """Return the card that everybody may read, of an agent reached below `base_url` and guarded by `security`.

    `delivers`: whether the deployment has what delivers push notifications, as the template's has.
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
    """Return the extended card, where the agent offers one and says what it holds."""
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
    said = config.security.schemes if config.security else {}
    return {name: scheme.description for name, scheme in said.items()}
