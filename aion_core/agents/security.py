"""Auth policies of the agents, made from aion.yaml."""

from collections import Counter
from collections.abc import Mapping

from aion_core.agents.config import AgentConfig
from aion_core.agents.config_sections import (
    ApiKeyConfig,
    AwsIamConfig,
    BasicConfig,
    OidcConfig,
    RequirementConfig,
    SchemeConfig,
)
from aion_core.auth.declaration import ApiKey, AwsIam, Basic, Jwt, Requirement, Scheme, Security
from aion_core.errors import ConfigurationError


def declared_security(agent_id: str, config: AgentConfig) -> Security | None:
    """Return the agent's auth policy, None without one; raises ConfigurationError that names the line."""
    declared, where = config.security, f"aion.agents.{agent_id}"
    skills = [*config.skills, *(config.extended_card.skills if config.extended_card else [])]
    requirements_by_skill = {skill.id: skill.require for skill in skills if skill.require}
    if declared is None or not declared.schemes:
        if requirements_by_skill or (declared is not None and declared.require):
            raise ConfigurationError(f"{where} requires schemes, and neither it nor aion.security declares a scheme.")
        return None
    schemes = {name: _scheme(scheme) for name, scheme in declared.schemes.items()}
    _check_kinds(where, schemes)
    require = [{name: []} for name in schemes] if declared.require is None else declared.require
    if not require:
        raise ConfigurationError(f"{where}: `require` is empty, so no caller could authenticate. Name a scheme.")
    return Security(
        schemes,
        tuple(_requirement(where, schemes, each) for each in require),
        {
            skill: tuple(_requirement(f"{where}.skills: {skill}", schemes, each) for each in requirements)
            for skill, requirements in requirements_by_skill.items()
        },
        has_open_skill=len(requirements_by_skill) < len(skills) or not config.skills,
    )


def declared_securities(configs: Mapping[str, AgentConfig]) -> dict[str, Security]:
    """Return the auth policy of each agent, {} without any; raises ConfigurationError if only some have one.

    Stored tasks of all agents are protected by the same authentication.
    """
    found = {agent_id: declared_security(agent_id, config) for agent_id, config in configs.items()}
    closed = {agent_id: security for agent_id, security in found.items() if security is not None}
    if closed and (open_ones := sorted(found.keys() - closed.keys())):
        raise ConfigurationError(
            f"aion.agents.{open_ones[0]} declares no `security`, and {', '.join(closed)} does. Declare it for the "
            "deployment, in aion.security, or for each agent."
        )
    return closed


def _requirement(where: str, schemes: Mapping[str, Scheme], declared: RequirementConfig) -> Requirement:
    for name, scopes in declared.items():
        if name not in schemes:
            raise ConfigurationError(f"{where} requires {name!r}, and the schemes are {', '.join(schemes)}.")
        if scopes and isinstance(schemes[name], Basic | AwsIam):
            raise ConfigurationError(f"{where} requires scopes of {name!r}, a scheme without scopes.")
    in_authorization = [name for name in declared if not isinstance(schemes[name], ApiKey)]
    if len(in_authorization) > 1:
        raise ConfigurationError(
            f"{where} requires {' and '.join(in_authorization)} together, and a request has one Authorization header."
        )
    return {name: frozenset(scopes) for name, scopes in declared.items()}


def _check_kinds(where: str, schemes: Mapping[str, Scheme]) -> None:
    kinds = Counter(type(scheme) for scheme in schemes.values() if not isinstance(scheme, Jwt))
    if twice := next((kind for kind, count in kinds.items() if count > 1), None):
        names = [name for name, scheme in schemes.items() if type(scheme) is twice]
        raise ConfigurationError(f"{where}: {' and '.join(names)} are of one type; one such scheme is enough.")
    issuers = Counter(scheme.issuer for scheme in schemes.values() if isinstance(scheme, Jwt))
    if many := next((issuer for issuer, count in issuers.items() if count > 1), None):
        raise ConfigurationError(f"{where}: two schemes are of the issuer {many}; one may have several audiences.")


def _scheme(declared: SchemeConfig) -> Scheme:
    match declared:
        case ApiKeyConfig():
            return ApiKey(declared.header)
        case BasicConfig():
            return Basic()
        case AwsIamConfig():
            return AwsIam(declared.owner)
        case _:
            return Jwt(
                issuer=declared.issuer,
                audience=tuple(declared.audience),
                algorithms=tuple(declared.algorithms),
                jwks_url=declared.jwks_url or "",
                is_oidc=isinstance(declared, OidcConfig),
                tenant_claim=declared.tenant_claim,
                scope_claim=declared.scope_claim,
            )
