"""May this caller use this agent? What is declared and what is proven come in, one answer goes out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from aion_core.auth.declaration import Requirement, Security
from aion_core.auth.principal import Principal


class Unproven(Enum):
    """Why a scheme says nothing of who calls."""

    MISSING = "missing"
    """No credentials of the scheme came with the request."""
    INVALID = "invalid"
    """They came, and prove nothing."""
    UNKNOWN = "unknown"
    """Whether they prove anything cannot be said now."""
    TOO_MANY = "too many tries"
    """They came, and are not looked at now: too many others have proven nothing."""


_UNSAID = frozenset({Unproven.UNKNOWN, Unproven.TOO_MANY})
"""Who is refused for one of these may be let in later."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The caller may; everything is done in the name of the principal."""

    principal: Principal
    skills: frozenset[str] = frozenset()
    """Those that need more than the agent does, and that the caller may use."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The caller may not; `status` is HTTP's word for why."""

    status: int
    """401: nobody has proven anything. 403: it is not enough. 429: too many tries. 503: what would prove it cannot be read
    now."""
    invalid: frozenset[str] = frozenset()
    """The schemes whose credentials came and prove nothing."""
    scopes: frozenset[str] = frozenset()
    """What a token would have to give."""


def decide(security: Security, proven: Mapping[str, Principal | Unproven], agent_id: str) -> Allowed | Refused:
    """Return whether who has proven this may use the agent; `proven` has an answer for each scheme that is needed."""
    lacking: frozenset[str] | None = None
    unsaid: set[Unproven] = set()
    for requirement in security.require:
        principals = [proven[name] for name in requirement]
        known = [principal for principal in principals if isinstance(principal, Principal)]
        if len(known) < len(principals):
            unsaid |= _UNSAID.intersection(principals)
            continue
        missing = _missing(requirement, known)
        if not missing and all(_is_for(principal, agent_id) for principal in known) and _agree(known):
            caller = _joined(known)
            skills = _skills(security, proven, caller, agent_id)
            if skills or security.has_open_skill:
                return Allowed(caller, skills)
            # There is nothing here that they may ask for, as far as can be said.
            if later := _UNSAID.intersection(proven.values()):
                unsaid |= later
                continue
            missing = _least(security, proven)
        lacking = missing if lacking is None else lacking
    if lacking is not None:
        return Refused(403, scopes=lacking)
    if unsaid:
        return Refused(429 if Unproven.TOO_MANY in unsaid else 503)
    return Refused(401, frozenset(name for name, found in proven.items() if found is Unproven.INVALID))


def _least(security: Security, proven: Mapping[str, Principal | Unproven]) -> frozenset[str]:
    """Return the fewest scopes that would open some skill to who has proven this."""
    lacking = [
        _missing(requirement, [found for name in requirement if isinstance(found := proven[name], Principal)])
        for require in security.skills.values()
        for requirement in require
        if all(isinstance(proven[name], Principal) for name in requirement)
    ]
    return min(
        (scopes for scopes in lacking if scopes), key=lambda scopes: (len(scopes), sorted(scopes)), default=frozenset()
    )


def _missing(requirement: Requirement, known: Iterable[Principal]) -> frozenset[str]:
    return frozenset(
        scope
        for scopes, principal in zip(requirement.values(), known, strict=True)
        for scope in scopes - principal.scopes
    )


def _is_for(principal: Principal, agent_id: str) -> bool:
    return principal.agents is None or agent_id in principal.agents


def _agree(known: Iterable[Principal]) -> bool:
    """Tell whether nobody of them is for another tenant than the others."""
    return len({principal.tenant for principal in known} - {""}) <= 1


def _joined(known: list[Principal]) -> Principal:
    """Return the principal who stands first; where only another's credentials name a tenant, in that."""
    first = known[0]
    tenant = next((principal.tenant for principal in known if principal.tenant), "")
    return Principal(first.issuer, first.subject, tenant, first.scopes, first.agents)


def _skills(
    security: Security, proven: Mapping[str, Principal | Unproven], caller: Principal, agent_id: str
) -> frozenset[str]:
    """Return the skills whose own requirements are fulfilled too."""

    def fulfils(requirement: Requirement) -> bool:
        known = [found for name in requirement if isinstance(found := proven[name], Principal)]
        if not all(_is_for(principal, agent_id) for principal in known):
            return False
        return len(known) == len(requirement) and not _missing(requirement, known) and _agree([caller, *known])

    return frozenset(skill for skill, require in security.skills.items() if any(map(fulfils, require)))
