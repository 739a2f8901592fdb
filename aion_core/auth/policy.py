"""Auth policy of an agent, the access decision, and the check against the HTTP entry points. Pure.

The agent card shows the same requirements (A2A 4.5): the advertised policy is the enforced policy.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aion_core.auth.principal import Principal
from aion_core.auth.scheme import AuthFailure, Scheme
from aion_core.auth.schemes.aws_iam import AwsIamScheme
from aion_core.errors import ConfigurationError

Requirement = Mapping[str, frozenset[str]]
"""Names of schemes required together, each with its required scopes."""

Results = Mapping[str, Principal | AuthFailure]
"""Result of each required scheme's verifier, by the scheme's name."""


@dataclass(frozen=True, slots=True)
class AuthPolicy:
    """Schemes and requirements of an agent."""

    schemes: Mapping[str, Scheme]
    require: tuple[Requirement, ...]
    """Alternative requirements: one suffices."""
    skills: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    """Further requirements of skills, by skill id."""
    has_open_skill: bool = True
    """True if the agent has a skill without further requirements."""

    @property
    def required_schemes(self) -> dict[str, Scheme]:
        """Return the schemes of the requirements: only these are verified and advertised."""
        named = {name for each in (self.require, *self.skills.values()) for alternative in each for name in alternative}
        return {name: scheme for name, scheme in self.schemes.items() if name in named}


# ── Decision ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_TEMPORARY = frozenset({AuthFailure.UNAVAILABLE, AuthFailure.TOO_MANY_ATTEMPTS})
"""Failures that a later request may not have."""


@dataclass(frozen=True, slots=True)
class AccessGranted:
    """The caller may use the agent, as this principal."""

    principal: Principal
    skills: frozenset[str] = frozenset()
    """Permitted skills, of those with further requirements."""


@dataclass(frozen=True, slots=True)
class AccessDenied:
    """The caller may not use the agent."""

    status: int
    """HTTP status. 401: not authenticated. 403: insufficient. 429: too many attempts. 503: verification impossible now."""
    invalid: frozenset[str] = frozenset()
    """Names of the schemes with wrong credentials."""
    scopes: frozenset[str] = frozenset()
    """Scopes missing in the credentials."""


def decide(policy: AuthPolicy, results: Results, agent_id: str) -> AccessGranted | AccessDenied:
    """Return the decision on a request; `results` covers all required schemes."""
    missing_scopes: frozenset[str] | None = None
    temporary: set[AuthFailure] = set()
    for requirement in policy.require:
        needed = [results[name] for name in requirement]
        principals = [result for result in needed if isinstance(result, Principal)]
        if len(principals) < len(needed):
            temporary |= _TEMPORARY.intersection(needed)
            continue
        missing = _missing_scopes(requirement, principals)
        permitted = all(_permits(principal, agent_id) for principal in principals)
        if not missing and permitted and _same_tenant(principals):
            caller = _combined(principals)
            skills = _permitted_skills(policy, results, caller, agent_id)
            if skills or policy.has_open_skill:
                return AccessGranted(caller, skills)
            # No skill is permitted now. A temporary failure may hide a permission.
            if failures := _TEMPORARY.intersection(results.values()):
                temporary |= failures
                continue
            missing = _fewest_scopes(policy, results)
        missing_scopes = missing if missing_scopes is None else missing_scopes
    if missing_scopes is not None:
        return AccessDenied(403, scopes=missing_scopes)
    if temporary:
        return AccessDenied(429 if AuthFailure.TOO_MANY_ATTEMPTS in temporary else 503)
    return AccessDenied(401, frozenset(name for name, result in results.items() if result is AuthFailure.INVALID))


def _fewest_scopes(policy: AuthPolicy, results: Results) -> frozenset[str]:
    """Return the smallest set of scopes that permits a skill with these results."""
    missing = [
        _missing_scopes(requirement, [result for name in requirement if isinstance(result := results[name], Principal)])
        for require in policy.skills.values()
        for requirement in require
        if all(isinstance(results[name], Principal) for name in requirement)
    ]
    return min(
        (scopes for scopes in missing if scopes), key=lambda scopes: (len(scopes), sorted(scopes)), default=frozenset()
    )


def _missing_scopes(requirement: Requirement, principals: Iterable[Principal]) -> frozenset[str]:
    return frozenset(
        scope
        for scopes, principal in zip(requirement.values(), principals, strict=True)
        for scope in scopes - principal.scopes
    )


def _permits(principal: Principal, agent_id: str) -> bool:
    return principal.agents is None or agent_id in principal.agents


def _same_tenant(principals: Iterable[Principal]) -> bool:
    return len({principal.tenant for principal in principals} - {""}) <= 1


def _combined(principals: list[Principal]) -> Principal:
    """Return the first principal, in the tenant of the first credentials with a tenant."""
    first = principals[0]
    tenant = next((principal.tenant for principal in principals if principal.tenant), "")
    return Principal(first.issuer, first.subject, tenant, first.scopes, first.agents)


def _permitted_skills(policy: AuthPolicy, results: Results, caller: Principal, agent_id: str) -> frozenset[str]:
    """Return the skills with a fulfilled requirement."""

    def is_fulfilled(requirement: Requirement) -> bool:
        principals = [result for name in requirement if isinstance(result := results[name], Principal)]
        return (
            len(principals) == len(requirement)
            and all(_permits(principal, agent_id) for principal in principals)
            and not _missing_scopes(requirement, principals)
            and _same_tenant([caller, *principals])
        )

    return frozenset(skill for skill, require in policy.skills.items() if any(map(is_fulfilled, require)))


# ── HTTP entry points ─────────────────────────────────────────────────────────────────────────────────────────────────

SIGNED, OPEN = "AWS_IAM", "NONE"
"""Authorizers of API Gateway and of a Function URL: AWS verifies signatures, or forwards every request."""

_IAM_POLICY = AuthPolicy({"aws_iam": AwsIamScheme()}, ({"aws_iam": frozenset()},))
"""Policy without one in aion.yaml, if all entry points verify signatures: the caller is the signer."""


def policies_at_entrypoints(
    policies: Mapping[str, AuthPolicy], agent_ids: Collection[str], authorizers: Collection[str]
) -> dict[str, AuthPolicy]:
    """Return each agent's policy at the HTTP entry points with these authorizers; empty outside the template's function.

    Raises ConfigurationError if nobody would authenticate callers, or if a policy is impossible at an entry point.
    """
    if not policies:
        if authorizers and set(authorizers) == {SIGNED}:
            return dict.fromkeys(agent_ids, _IAM_POLICY)
        raise ConfigurationError(
            "aion.yaml declares no `security`, so nobody would authenticate callers. Declare it there, or deploy with "
            "ApiAuthorizer and FunctionUrlAuth set to AWS_IAM."
        )
    for agent_id, policy in policies.items():
        _check_entrypoints(agent_id, policy, set(authorizers))
    return dict(policies)


def _check_entrypoints(agent_id: str, policy: AuthPolicy, authorizers: set[str]) -> None:
    by_aws = [any(policy.schemes[name].verified_by_aws for name in requirement) for requirement in policy.require]
    if SIGNED in authorizers and (not any(by_aws) or (authorizers == {SIGNED} and not all(by_aws))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} accepts requests without AWS signatures, and the HTTP entry point requires signatures. "
            "Deploy with ApiAuthorizer NONE, or require a scheme of type aws-iam."
        )
    if OPEN in authorizers and (all(by_aws) or (authorizers == {OPEN} and any(by_aws))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} requires AWS signatures, and the HTTP entry point does not verify signatures. "
            "Deploy with ApiAuthorizer AWS_IAM, or require another scheme."
        )
