"""Decision whether a caller may use an agent, from the agent's policy and the verifiers' results. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from aion_core.auth.policy import AuthPolicy, Requirement
from aion_core.auth.principal import Principal
from aion_core.auth.scheme import AuthFailure

Results = Mapping[str, Principal | AuthFailure]
"""Results of the verifiers by the scheme's name: the caller's principal, or the reason of the failure."""

_TEMPORARY = frozenset({AuthFailure.UNAVAILABLE, AuthFailure.TOO_MANY_ATTEMPTS})
"""Reasons of failures after which a later request with the same credentials may succeed."""


class AccessGranted(Struct, frozen=True):
    """Decision to grant the caller access to the agent, with the caller's principal and skills."""

    principal: Principal
    skills: frozenset[str] = frozenset()
    """Ids of the restricted skills that the caller may use."""


class AccessDenied(Struct, frozen=True):
    """Decision to refuse access to the agent, with the HTTP status and the details for the challenge."""

    status: int
    """HTTP status: 401 not authenticated, 403 not permitted, 429 too many attempts, 500 internal, 503 unavailable."""
    invalid: frozenset[str] = frozenset()
    """Names of the authentication schemes with wrong credentials in the request."""
    scopes: frozenset[str] = frozenset()
    """Scopes that access requires and the credentials lack."""


def decide(policy: AuthPolicy, results: Results, agent_id: str) -> AccessGranted | AccessDenied:
    """Grant or refuse access to the agent. `results` has the verifiers' results for all required schemes."""
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
            # The caller may use no skill. If a verifier failed temporarily, report that failure, because it may be the
            # reason.
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
    """Return the smallest set of missing scopes that would permit the caller a restricted skill; empty without one."""
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
    """Return the caller: the first principal, with the tenant of whichever principal has one."""
    first = principals[0]
    tenant = next((principal.tenant for principal in principals if principal.tenant), "")
    return Principal(first.issuer, first.subject, tenant, first.scopes, first.agents)


def _permitted_skills(policy: AuthPolicy, results: Results, caller: Principal, agent_id: str) -> frozenset[str]:
    """Return the ids of the restricted skills whose requirements the caller's credentials fulfil."""

    def is_fulfilled(requirement: Requirement) -> bool:
        principals = [result for name in requirement if isinstance(result := results[name], Principal)]
        return (
            len(principals) == len(requirement)
            and all(_permits(principal, agent_id) for principal in principals)
            and not _missing_scopes(requirement, principals)
            and _same_tenant([caller, *principals])
        )

    return frozenset(skill for skill, require in policy.skills.items() if any(map(is_fulfilled, require)))
