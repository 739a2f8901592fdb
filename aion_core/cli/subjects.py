"""The owners that a person's name can stand for: one for each issuer, and one more for each of its tenants."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aion_core.auth.principal import API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER
from aion_core.cli.owners import owner_of

OWN_ISSUERS = (API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER)

DEFAULT = Path("aion.yaml")

_ROLE = re.compile(r"arn:([^:]+):iam::([0-9]+):role/(?:.*/)?([^/]+)")


@dataclass(frozen=True, slots=True)
class NamedOwner:
    """An owner of the table, and what its hash was made of, as far as that is known."""

    owner: str
    subject: str = ""
    issuer: str = ""
    tenant: str = ""

    @property
    def words(self) -> str:
        """Text for people."""
        named = [self.subject, self.issuer, *([f"tenant {self.tenant}"] if self.tenant else [])]
        return f"{self.owner}  {', '.join(named)}" if self.subject else self.owner


@dataclass(frozen=True, slots=True)
class Declared:
    """Parts of an aion.yaml that widen the search: its agents, and the issuers of their tokens."""

    agents: frozenset[str] = frozenset()
    issuers: tuple[str, ...] = ()


def declared_in(config: Path) -> Declared:
    """Return what the file declares, nothing if the default one is missing; raises ConfigurationError."""
    from aion_core.agents.config import read_agent_configs
    from aion_core.agents.config_sections import BearerJwtConfig, OidcConfig

    if config == DEFAULT and not config.is_file():
        return Declared()
    agents = read_agent_configs(config)
    schemes = [scheme for agent in agents.values() if agent.security for scheme in agent.security.schemes.values()]
    issuers = [scheme.issuer for scheme in schemes if isinstance(scheme, BearerJwtConfig | OidcConfig)]
    return Declared(frozenset(agents), tuple(dict.fromkeys(issuers)))


def owners_of(subject: str, issuers: Iterable[str], tenants: Iterable[str]) -> list[NamedOwner]:
    """Return the owners of what the subject makes: by each of the issuers, outside of any tenant and in each of these."""
    tenants = ("", *dict.fromkeys(tenant for tenant in tenants if tenant))
    return [
        NamedOwner(owner_of(name, issuer, tenant), name, issuer, tenant)
        for issuer in dict.fromkeys(issuers)
        for name in _names(subject, issuer)
        for tenant in tenants
    ]


def _names(subject: str, issuer: str) -> Iterator[str]:
    yield subject
    role = _ROLE.fullmatch(subject)
    if issuer == IAM_ISSUER and role:
        # AWS names the signer of a request by the role that was assumed, without the role's path.
        yield f"arn:{role[1]}:sts::{role[2]}:assumed-role/{role[3]}"
