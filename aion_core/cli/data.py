"""`aion data`: everything that an owner has in a deployment, counted store by store and deleted."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.cli import options
from aion_core.cli.options import Deployment
from aion_core.cli.subjects import OWN_ISSUERS, NamedOwner, declared_in, owners_of
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings

if TYPE_CHECKING:
    from aion_core.stores.erasure import Erasure
    from aion_core.stores.survey import OwnedData

PASSES = 3
"""Passes of searching and deleting: a worker may write until it learns that its task is gone."""


@click.group(short_help="Delete what a person has in a deployment.")
def data() -> None:
    """Count and delete everything that a person, or another owner, has in a deployment."""


@data.command(
    short_help="Delete everything of an owner, in every store.",
    epilog="""\b
Examples:
  aion data delete --subject alice@example.com --stack aion-prod
  aion data delete --subject alice@example.com --stack aion-prod --yes
  aion data delete --subject 248289761001 --issuer https://login.example.com
  aion data delete --owner principal:5f… --json""",
)
@click.option("--owner", default="", help="The owner, as logs and `aion tasks` print it.")
@click.option(
    "--subject",
    default="",
    help="Instead of --owner: the subject of a token, the principal of an API key, a user of HTTP Basic, an IAM ARN.",
)
@click.option("--issuer", default="", help="Of the --subject; every issuer that is known where nothing is said.")
@click.option("--tenant", "tenants", multiple=True, help="Of the --subject: look in this tenant too.")
@click.option("--agent", "agents", multiple=True, help="An agent that is gone: look for a user's state with it too.")
@click.option("--keep-keys", is_flag=True, help="Leave the owner's API keys as they are.")
@click.option("--dry-run", is_flag=True, help="Print what is there, and do not ask.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
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
    """Delete everything that an owner has: in the table and in the bucket, all versions, and the API keys.

    Without --yes it prints what there is in each store, and deletes it only if the owner, or the subject, is typed as
    it was named. It reads the keys of the whole table, and may be run again at any time.
    """
    if bool(owner) == bool(subject):
        raise click.UsageError("Name the --owner or the --subject, and not both.")
    if (issuer or tenants) and not subject:
        raise click.UsageError("--issuer and --tenant belong to a --subject: name it.")
    if yes and dry_run:
        raise click.UsageError("--yes deletes, and --dry-run does not: choose one.")
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
        yes = click.prompt(f"Type {owner or subject} to delete all this", default="", show_default=False, err=True) == (
            owner or subject
        )
        if not yes:
            click.echo("Nothing was deleted.", err=True)
            return
    left = asyncio.run(_delete(settings, work, found, progress)) if yes else None
    if as_json:
        click.echo(json.dumps(report.document(left), indent=2))
    elif left is None:
        if not found.is_empty:
            click.echo("Nothing was deleted: this was a dry run. --yes deletes.", err=True)
    elif left.is_empty and not found.is_empty:
        click.echo("All of it is deleted; nothing was found when everything was looked for again.", err=True)
    if yes and found.running:
        click.echo(
            f"{_turns(found)} running; what they still write to tasks is refused. Run the command again in a minute: it "
            "finds what they have put into the bucket meanwhile.",
            err=True,
        )
    if left is not None and not left.is_empty:
        raise ConfigurationError(
            f"{_again(_count(left))} there again: somebody still writes as this owner. Take their access "
            "away (`aion key revoke`, the issuer), and run the command again."
        )


@dataclass(frozen=True)
class _Work:
    owners: Sequence[NamedOwner]
    agents: frozenset[str]
    keep_keys: bool


class _Report:
    """Report of the items that were found, by owner and store."""

    def __init__(self, owners: Sequence[NamedOwner], found: "OwnedData") -> None:
        self._found = found
        counts = Counter(row.owner for row in found.rows) + Counter(version.owner for version in found.versions)
        self._owners = [(owner, counts[owner.owner]) for owner in owners]

    def check(self) -> None:
        """Raise ConfigurationError if the table holds what this version cannot tell the owner of."""
        if self._found.unknown:
            kinds = ", ".join(f"{count} {prefix}…" for prefix, count in sorted(self._found.unknown.items()))
            raise ConfigurationError(
                f"The table holds items that this version of aion does not know ({kinds}); they may be the owner's. "
                "Install the version that the deployment runs, and run the command again."
            )

    def print(self) -> None:
        """Print it for a person: the owners to stderr, the stores as a table."""
        click.echo(f"Looked for {len(self._owners)} owners:" if len(self._owners) > 1 else "Looked for:", err=True)
        for owner, count in self._owners:
            if count or len(self._owners) <= 10:
                click.echo(f"  {owner.words}: {count or 'nothing'}", err=True)
        click.echo(f"User state was looked for with: {', '.join(sorted(self._found.agents)) or 'no agent'}.", err=True)
        if self._found.running:
            click.echo(f"{_turns(self._found)} running.", err=True)
        rows = [(line["store"], *(f"{line[name]:,}" for name in ("items", "versions", "bytes"))) for line in self.lines]
        if not rows:
            click.echo("There is nothing of this owner.", err=True)
            return
        for store, *numbers in (("STORE", "ITEMS", "VERSIONS", "BYTES"), *rows):
            click.echo(f"{store:<24}" + "".join(f"{number:>16}" for number in numbers))

    def document(self, left: "OwnedData | None") -> dict[str, Any]:
        """Return it for a program."""
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
        """Number of items and bytes in each store of the table and the bucket."""
        from aion_core.stores.owned import STORES
        from aion_core.stores.survey import LEFTOVERS, MENTIONS

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
    """Says on stderr what is being done, once a second, to somebody who waits for longer than that."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, what: str, count: int) -> None:
        """Print what is being done, unless something was printed less than a second ago."""
        now = time.monotonic()
        if now - self._said >= 1:
            self._said = now
            click.echo(f"{count:,} {what}", err=True)


def _again(count: int) -> str:
    return "1 item or version is" if count == 1 else f"{count} items and versions are"


def _turns(found: "OwnedData") -> str:
    return "The turn of a task is" if len(found.running) == 1 else f"The turns of {len(found.running)} tasks are"


def _count(found: "OwnedData") -> int:
    return len(found.rows) + len(found.versions) + len(found.mentions)


def _erasure(settings: Settings) -> "Erasure":
    from aion_core.bootstrap.operator import build_erasure

    return build_erasure(settings)


async def _tenants(settings: Settings) -> list[str]:
    """Return the tenants that API keys are for: of others only the hashes are stored."""
    from aion_core.bootstrap.operator import build_keys

    return sorted({key.tenant for key in await build_keys(settings).all()})


async def _find(settings: Settings, work: _Work, progress: Progress) -> "OwnedData":
    return await _found(_erasure(settings), work, progress)


async def _found(erasure: "Erasure", work: _Work, progress: Progress) -> "OwnedData":
    from aion_core.stores.owned import API_KEYS

    found = await erasure.find({owner.owner for owner in work.owners}, work.agents, progress)
    return found.without(API_KEYS) if work.keep_keys else found


async def _delete(settings: Settings, work: _Work, found: "OwnedData", progress: Progress) -> "OwnedData":
    """Delete what was found, and what is found when it is looked for again; return what is left after that."""
    erasure, agents = _erasure(settings), work.agents | found.agents
    work = _Work(work.owners, agents, keep_keys=work.keep_keys)
    for _ in range(PASSES):
        await erasure.delete(found, progress)
        found = await _found(erasure, work, progress)
        if found.is_empty:
            break
    return found
