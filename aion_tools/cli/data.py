"""`aion data` deletes an owner's data in all stores of a deployment."""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.auth.principal import API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from aion_tools.cli import options
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.options import Deployment, owner_of

if TYPE_CHECKING:
    from aion_tools.erasure.deletion import Erasure
    from aion_tools.erasure.found import OwnedData


PASSES = 3
"""Maximum number of rounds of deleting and searching. One is not enough, because a worker may write more data until it
notices that its task is deleted."""


@click.group(cls=HintingGroup, short_help="Delete an owner's data.")
def data() -> None:
    """Count and delete an owner's data in a deployment."""


@data.command(
    short_help="Delete all data of an owner.",
    epilog="""\b
Examples:
  aion data delete --subject alice@example.com --stack aion-prod
  aion data delete --subject alice@example.com --stack aion-prod --yes
  aion data delete --subject 248289761001 --issuer https://login.example.com
  aion data delete --owner principal:5f… --json""",
)
@click.option("--owner", default="", help="The owner, as printed by `aion why` and `aion tasks`.")
@click.option(
    "--subject",
    default="",
    help="Instead of --owner: a token's subject, an API key's principal, a user of HTTP Basic, or an IAM ARN.",
)
@click.option("--issuer", default="", help="Issuer of the --subject.  [default: all known issuers]")
@click.option("--tenant", "tenants", multiple=True, help="Additional tenant of the --subject; may be repeated.")
@click.option(
    "--agent", "agents", multiple=True, help="A removed agent: delete user state with it too; may be repeated."
)
@click.option("--keep-keys", is_flag=True, help="Keep the owner's API keys.")
@click.option("--dry-run", is_flag=True, help="Print the data without asking or deleting.")
@options.yes
@options.as_json
@options.config
@options.deployment
def delete(
    owner: str,
    subject: str,
    issuer: str,
    tenants: tuple[str, ...],
    agents: tuple[str, ...],
    config: Path,
    deployment: Deployment,
    *,
    keep_keys: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete all data of an owner in the table and in the bucket (with all versions), and the owner's API keys.

    Without --yes it prints the data of each store, and deletes it only after the owner, or the subject, is typed again. It
    reads the keys of the whole table. The command may be repeated.
    """
    if bool(owner) == bool(subject):
        raise click.UsageError("Give either --owner or --subject.")
    if (issuer or tenants) and not subject:
        raise click.UsageError("--issuer and --tenant require a --subject.")
    if yes and dry_run:
        raise click.UsageError("Give either --yes or --dry-run.")
    settings = deployment.settings("AION_TABLE", "AION_BUCKET")
    declared = declared_in(config.expanduser())
    if owner:
        owners = [NamedOwner(owner)]
    else:
        known = asyncio.run(_tenants(settings))
        issuers = [issuer] if issuer else [*OWN_ISSUERS, *declared.issuers]
        owners = owners_of(subject, issuers, [*tenants, *known])
    work = _Work(owners, frozenset(agents) | declared.agents, keep_keys=keep_keys)
    progress = Progress()
    found = asyncio.run(_find(settings, work, progress))
    report = _Report(owners, found)
    report.check()
    if not as_json:
        report.print()
    if not found.is_empty and not dry_run and not yes and not as_json and sys.stdin.isatty():
        yes = click.prompt(
            f"Type {owner or subject} to delete all of it", default="", show_default=False, err=True
        ) == (owner or subject)
        if not yes:
            click.echo("Nothing was deleted.", err=True)
            sys.exit(1)
    left = asyncio.run(_delete(settings, work, found, progress)) if yes else None
    if as_json:
        click.echo(json.dumps(report.document(left), indent=2))
    elif left is None:
        if not found.is_empty:
            click.echo("Nothing was deleted (dry run). --yes deletes.", err=True)
    elif left.is_empty and not found.is_empty:
        click.echo("Everything was deleted; a second search found nothing.", err=True)
    if yes and found.running:
        click.echo(
            f"{_turns(found)} running, but can no longer write to the table. Run the command again in a minute to delete "
            "files stored in the meantime.",
            err=True,
        )
    if left is not None and not left.is_empty:
        raise ConfigurationError(
            f"{_again(_count(left))} there again: the owner still writes. Revoke their access (`aion key revoke`, the "
            "issuer) and run the command again."
        )


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


@dataclass(frozen=True)
class _Work:
    owners: Sequence[NamedOwner]
    agents: frozenset[str]
    keep_keys: bool


class _Report:
    """Report of the data found for the chosen owners: numbers of items for each owner and for each store."""

    def __init__(self, owners: Sequence[NamedOwner], found: "OwnedData") -> None:
        self._found = found
        counts = Counter(row.owner for row in found.rows) + Counter(version.owner for version in found.versions)
        self._owners = [(owner, counts[owner.owner]) for owner in owners]

    def check(self) -> None:
        """Raise ConfigurationError if the kind of an item is unknown, because the item may belong to the owner."""
        if self._found.unknown:
            kinds = ", ".join(f"{count} {prefix}…" for prefix, count in sorted(self._found.unknown.items()))
            raise ConfigurationError(
                f"The table holds items unknown to this version of aion ({kinds}), perhaps the owner's. "
                "Install the deployment's version and run the command again."
            )

    def print(self) -> None:
        """Print the report as text. Print the owners to stderr, and a table of the stores to stdout."""
        click.echo(f"Searched for {len(self._owners)} owners:" if len(self._owners) > 1 else "Searched for:", err=True)
        for owner, count in self._owners:
            if count or len(self._owners) <= 10:
                click.echo(f"  {owner.description}: {count or 'no items'}", err=True)
        click.echo(f"Searched for user state of: {', '.join(sorted(self._found.agents)) or 'no agent'}.", err=True)
        if self._found.running:
            click.echo(f"{_turns(self._found)} running.", err=True)
        rows = [(line["store"], *(f"{line[name]:,}" for name in ("items", "versions", "bytes"))) for line in self.lines]
        if not rows:
            click.echo("No data of this owner.", err=True)
            return
        for store, *numbers in (("STORE", "ITEMS", "VERSIONS", "BYTES"), *rows):
            click.echo(f"{store:<24}" + "".join(f"{number:>16}" for number in numbers))

    def document(self, left: "OwnedData | None") -> dict[str, Any]:
        """Return the report as a JSON object. `left` is the data that a deletion has left; None without a deletion."""
        return {
            "owners": [
                {"owner": of.owner, "subject": of.subject, "issuer": of.issuer, "tenant": of.tenant, "found": count}
                for of, count in self._owners
            ],
            "agents": sorted(self._found.agents),
            "running": len(self._found.running),
            "stores": self.lines,
            "deleted": left is not None,
            "left": _count(left if left is not None else self._found),
        }

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Name, number of items, number of object versions and bytes of each store that has data of the owners."""
        from aion_tools.erasure.found import LEFTOVERS, MENTIONS
        from aion_tools.erasure.owned import STORES

        items, versions, size = Counter[str](), Counter[str](), Counter[str]()
        for row in self._found.rows:
            items[row.store] += 1
            size[row.store] += row.size
        for version in self._found.versions:
            versions[version.store] += 1
            size[version.store] += version.size
        items[MENTIONS] = len(self._found.mentions)
        return [
            {"store": store, "items": items[store], "versions": versions[store], "bytes": size[store]}
            for store in (*STORES, MENTIONS, LEFTOVERS)
            if items[store] or versions[store]
        ]


class Progress:
    """Progress messages on stderr, at most one a second."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, unit: str, count: int) -> None:
        """Print the count of the unit, such as items read, unless a message was printed less than a second ago."""
        now = time.monotonic()
        if now - self._printed_at >= 1:
            self._printed_at = now
            click.echo(f"{count:,} {unit}", err=True)


def _again(count: int) -> str:
    return "1 item or version is" if count == 1 else f"{count} items and versions are"


def _turns(found: "OwnedData") -> str:
    return "The turn of a task is" if len(found.running) == 1 else f"The turns of {len(found.running)} tasks are"


def _count(found: "OwnedData") -> int:
    return len(found.rows) + len(found.versions) + len(found.mentions)


def _erasure(settings: Settings) -> "Erasure":
    from aion_tools.erasure.bootstrap import build_erasure

    return build_erasure(settings)


async def _tenants(settings: Settings) -> list[str]:
    """Return the tenants of all API keys, the only tenants whose names are stored. Owner ids contain only hashes."""
    from aion_tools.operator.bootstrap import build_keys

    return sorted({key.tenant for key in await build_keys(settings).all()})


async def _find(settings: Settings, work: _Work, progress: Progress) -> "OwnedData":
    return await _found(_erasure(settings), work, progress)


async def _found(erasure: "Erasure", work: _Work, progress: Progress) -> "OwnedData":
    from aion_tools.erasure.owned import API_KEYS

    found = await erasure.find({owner.owner for owner in work.owners}, work.agents, progress)
    return found.without(API_KEYS) if work.keep_keys else found


async def _delete(settings: Settings, work: _Work, found: "OwnedData", progress: Progress) -> "OwnedData":
    """Delete the found data, then search again for data written meanwhile, up to `PASSES` times. Return the rest."""
    erasure, agents = _erasure(settings), work.agents | found.agents
    work = _Work(work.owners, agents, keep_keys=work.keep_keys)
    for _ in range(PASSES):
        await erasure.delete(found, progress)
        found = await _found(erasure, work, progress)
        if found.is_empty:
            break
    return found


OWN_ISSUERS = (API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER)

_ROLE = re.compile(r"arn:([^:]+):iam::([0-9]+):role/(?:.*/)?([^/]+)")


@dataclass(frozen=True, slots=True)
class DeclaredIssuers:
    """Agents and token issuers declared in an aion.yaml. They determine the owner ids and agents to search for."""

    agents: frozenset[str] = frozenset()
    issuers: tuple[str, ...] = ()


def declared_in(config: Path) -> DeclaredIssuers:
    """Read the agents and token issuers from an aion.yaml. Return an empty result if the default file is missing.

    Raises ConfigurationError for an invalid file.
    """
    from aion_core.auth.schemes.bearer import JwtScheme
    from aion_core.loading.deployment import read_agent_configs

    if config == options.DEFAULT_CONFIG and not config.is_file():
        return DeclaredIssuers()
    agents = read_agent_configs(config)
    schemes = [scheme for agent in agents.values() if agent.security for scheme in agent.security.schemes.values()]
    issuers = [scheme.issuer for scheme in schemes if isinstance(scheme, JwtScheme)]
    return DeclaredIssuers(frozenset(agents), tuple(dict.fromkeys(issuers)))


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
