"""Auth policies of agents, built from the configuration in aion.yaml."""

from collections import defaultdict
from collections.abc import Mapping

from aion_core.auth.policy import AuthPolicy, Requirement
from aion_core.auth.scheme import Scheme
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.security import RequirementConfig


def read_auth_policy(agent_id: str, config: AgentConfig) -> AuthPolicy | None:
    """Return the auth policy of an agent; None if its configuration declares no security scheme.

    Raises ConfigurationError, which names the key of an invalid setting.
    """
    security, where = config.security, f"aion.agents.{agent_id}"
    skills = [*config.skills, *(config.extended_card.skills if config.extended_card else [])]
    requirements_by_skill = {skill.id: skill.require for skill in skills if skill.require}
    if security is None or not security.schemes:
        if requirements_by_skill or (security is not None and security.require):
            raise ConfigurationError(f"{where} requires schemes, and neither it nor aion.security declares a scheme.")
        return None
    schemes = security.schemes
    require = [{name: []} for name in schemes] if security.require is None else security.require
    if not require:
        raise ConfigurationError(f"{where}: `require` is empty, so no caller could authenticate. Name a scheme.")
    policy = AuthPolicy(
        schemes,
        tuple(_requirement(where, schemes, each) for each in require),
        {
            skill: tuple(_requirement(f"{where}.skills: {skill}", schemes, each) for each in requirements)
            for skill, requirements in requirements_by_skill.items()
        },
        has_open_skill=len(requirements_by_skill) < len(skills) or not config.skills,
    )
    _check_unique(where, policy.required_schemes)
    return policy


def read_auth_policies(configs: Mapping[str, AgentConfig]) -> dict[str, AuthPolicy]:
    """Return the auth policies of all agents by agent id; {} if no agent has a policy.

    Raises ConfigurationError if only some agents have a policy, because all agents share the same task store.
    """
    found = {agent_id: read_auth_policy(agent_id, config) for agent_id, config in configs.items()}
    policies = {agent_id: policy for agent_id, policy in found.items() if policy is not None}
    if policies and (open_ones := sorted(found.keys() - policies.keys())):
        raise ConfigurationError(
            f"aion.agents.{open_ones[0]} declares no `security`, and {', '.join(policies)} does. Declare it for the "
            "deployment, in aion.security, or for each agent."
        )
    return policies


def _requirement(where: str, schemes: Mapping[str, Scheme], declared: RequirementConfig) -> Requirement:
    for name, scopes in declared.items():
        if name not in schemes:
            raise ConfigurationError(f"{where} requires {name!r}, and the schemes are {', '.join(schemes)}.")
        if scopes and not schemes[name].has_scopes:
            raise ConfigurationError(f"{where} requires scopes of {name!r}, a scheme without scopes.")
    in_authorization = [name for name in declared if schemes[name].in_authorization_header]
    if len(in_authorization) > 1:
        raise ConfigurationError(
            f"{where} requires {' and '.join(in_authorization)} together, and a request has one Authorization header."
        )
    return {name: frozenset(scopes) for name, scopes in declared.items()}


def _check_unique(where: str, schemes: Mapping[str, Scheme]) -> None:
    names_by_identity = defaultdict(list)
    for name, scheme in schemes.items():
        names_by_identity[scheme.identity].append(name)
    for names in names_by_identity.values():
        if len(names) > 1:
            raise ConfigurationError(f"{where}: {schemes[names[0]].duplicate_error(names)}")
