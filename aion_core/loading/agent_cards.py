"""Agent cards: the configuration in aion.yaml, and below it what the agent's code states."""

from collections.abc import Mapping, Sequence
from typing import Any

from a2a.types import a2a_pb2 as pb

from aion_core.auth.policy import AuthPolicy, Requirement
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.card import Capabilities, Skill
from aion_core.protocol.aion.extensions import INPUT, is_aion
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
    profile: AgentProfile = UNKNOWN,
    *,
    url: str = "/",
    delivers: bool = True,
    policy: AuthPolicy | None = None,
) -> AgentCard:
    """Return the public card of an agent, including its auth policy.

    `url` is the agent's; a server replaces it by the URL below which a client requests the card. `delivers` is True if
    the deployment sends push notifications. `profile` fills what aion.yaml leaves open.
    """
    capabilities, said = config.capabilities, profile.card
    return build_card(
        described(agent_id, config, said),
        url,
        modes=Modes(
            tuple(_stated(config, "input_modes") or said.default_input_modes or config.input_modes),
            tuple(_stated(config, "output_modes") or said.default_output_modes or config.output_modes),
        ),
        skills=_skills(config.skills, policy.skills if policy else {}) or said.skills,
        examples=profile.examples,
        capabilities=CardCapabilities(
            streaming=capabilities.streaming,
            push_notifications=delivers and capabilities.push_notifications,
            extended=capabilities.extended_agent_card,
            extensions=_extensions(capabilities, said),
            aion_extensions=profile.uses_aion_extensions
            if capabilities.aion_extensions is None
            else capabilities.aion_extensions,
        ),
        security=CardSecurity(card_schemes(policy), card_requirements(policy.require)) if policy else None,
    )


def described(agent_id: str, config: AgentConfig, said: AgentCard) -> AgentDescription:
    """Return the texts of an agent's card: those of aion.yaml, else those that its code states."""
    provider = AgentProvider(**config.provider.model_dump()) if config.provider else None
    return AgentDescription(
        config.name or said.name or agent_id,
        config.description or said.description,
        _stated(config, "version") or said.version or config.version,
        documentation_url=config.documentation_url or said.documentation_url,
        icon_url=config.icon_url or said.icon_url,
        provider=provider or (said.provider if said.HasField("provider") else None),
    )


def is_described(agent_id: str, config: AgentConfig, profile: AgentProfile) -> bool:
    """Return True if the card has a description by its author, not one of a project template's or none."""
    text = described(agent_id, config, profile.card).text
    return bool(text) and text not in TEMPLATES


TEMPLATES = frozenset(
    {
        "Add your description here",
        "A helpful assistant for user questions.",
        "LangGraph single-node graph template.",
        "New LangGraph Agent.",
        "Starter template for making a new agent LangGraph.",
    }
)
"""Descriptions in the templates of `uv init`, `adk create` and `langgraph new`, which describe no agent."""

UNDESCRIBED = "has no description in its card: other agents choose by it."
DESCRIBE_IT = "Set `description` in aion.yaml, or write a docstring."


def _stated(config: AgentConfig, key: str) -> Any:
    """Return the value of a key with a default value; None if aion.yaml does not have the key."""
    return getattr(config, key) if key in config.model_fields_set else None


def _extensions(capabilities: Capabilities, said: AgentCard) -> list[AgentExtension]:
    """Return the extensions in aion.yaml, then those that the code states."""
    own = [AgentExtension(**extension.as_declared()) for extension in capabilities.extensions]
    uris = {extension.uri for extension in own}
    if capabilities.aion_extensions is False:
        uris.add(INPUT)
    return [*own, *(extension for extension in said.capabilities.extensions if extension.uri not in uris)]


def reads_aion_extensions(config: AgentConfig) -> bool:
    """Return True if the server reads the payloads of Aion's extensions in requests to the agent.

    It does so also for an agent whose card lists none of them: a network's text reaches every agent.
    """
    capabilities = config.capabilities
    return capabilities.aion_extensions is not False or any(is_aion(each.uri) for each in capabilities.extensions)


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
