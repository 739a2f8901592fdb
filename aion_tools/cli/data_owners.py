"""Owners of a subject's data: an owner id for each issuer and tenant."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aion_core.auth.principal import API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER
from aion_tools.cli import options
from aion_tools.cli.owner_options import owner_of


@dataclass(frozen=True, slots=True)
class NamedOwner:
    """Owner id as stored in the table. If known, also the subject, issuer and tenant from which it is computed."""

    owner: str
    subject: str = ""
    issuer: str = ""
    tenant: str = ""

    @property
    def description(self) -> str:
        """The owner id, followed by its subject, issuer and tenant if they are known."""
        named = [self.subject, self.issuer, *([f"tenant {self.tenant}"] if self.tenant else [])]
        return f"{self.owner}  {', '.join(named)}" if self.subject else self.owner


OWN_ISSUERS = (API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER)
_ROLE = re.compile(r"arn:([^:]+):iam::([0-9]+):role/(?:.*/)?([^/]+)")


def issuers_in(config: Path) -> list[str]:
    """Read the token issuers of the agents from an aion.yaml. Return an empty list if the default file is missing.

    Raises ConfigurationError for an invalid file.
    """
    from aion_core.auth.schemes.bearer import JwtScheme
    from aion_core.loading.deployment import read_deployment_config

    if config == options.DEFAULT_CONFIG and not config.is_file():
        return []
    agents = read_deployment_config(config).agents
    schemes = [scheme for agent in agents.values() if agent.security for scheme in agent.security.schemes.values()]
    return list(dict.fromkeys(scheme.issuer for scheme in schemes if isinstance(scheme, JwtScheme)))


def owners_of(subject: str, issuers: Iterable[str], tenants: Iterable[str]) -> list[NamedOwner]:
    """Return a subject's possible owners: one for each pair of issuer and tenant, and one for each issuer alone."""
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
        # Yield the ARN of the assumed role too. AWS names the caller of a signed request by this ARN, which lacks the
        # path of the role's own ARN.
        yield f"arn:{role[1]}:sts::{role[2]}:assumed-role/{role[3]}"
