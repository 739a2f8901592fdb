"""`aion data` deletes an owner's data in all stores of a deployment."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from aion_tools.cli import deployment_options, options
from aion_tools.cli.data_owners import OWN_ISSUERS, NamedOwner, issuers_in, owners_of
from aion_tools.cli.data_report import DataReport, Progress, count_of, turns_of
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.hints import HintingGroup

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
@click.option("--keep-keys", is_flag=True, help="Keep the owner's API keys.")
@click.option("--dry-run", is_flag=True, help="Print the data without asking or deleting.")
@options.yes
@options.as_json
@options.config
@deployment_options.deployment
def delete(
    owner: str,
    subject: str,
    issuer: str,
    tenants: tuple[str, ...],
    config: Path,
    deployment: Deployment,
    *,
    keep_keys: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete all data of an owner in the table and in the bucket (with all versions), and the owner's API keys.

    Without --yes it prints the data of each store, and deletes it only after you type the owner or the subject. It
    reads the keys of the whole table. You can run it again.
    """
    if bool(owner) == bool(subject):
        raise click.UsageError("Give either --owner or --subject.")
    if (issuer or tenants) and not subject:
        raise click.UsageError("--issuer and --tenant require a --subject.")
    if yes and dry_run:
        raise click.UsageError("Give either --yes or --dry-run.")
    settings = deployment.settings("AION_TABLE", "AION_BUCKET")
    if owner:
        owners = [NamedOwner(owner)]
    else:
        known = asyncio.run(_tenants(settings))
        issuers = [issuer] if issuer else [*OWN_ISSUERS, *issuers_in(config.expanduser())]
        owners = owners_of(subject, issuers, [*tenants, *known])
    work = _Work(settings, [named.owner for named in owners], keep_keys=keep_keys)
    found = asyncio.run(work.find())
    report = DataReport(owners, found)
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
    left = asyncio.run(work.delete(found)) if yes else None
    if as_json:
        click.echo(json.dumps(report.document(left), indent=2))
    elif left is None:
        if not found.is_empty:
            click.echo("Nothing was deleted (dry run). --yes deletes.", err=True)
    elif left.is_empty and not found.is_empty:
        click.echo("Everything was deleted; a second search found nothing.", err=True)
    if yes and found.running:
        click.echo(
            f"{turns_of(found)} running, but can no longer write to the table. Run the command again in a minute to delete "
            "files stored in the meantime.",
            err=True,
        )
    if left is not None and not left.is_empty:
        raise ConfigurationError(
            f"{_again(count_of(left))} there again: the owner still writes. Revoke their access (`aion key revoke`, the "
            "issuer) and run the command again."
        )


def _again(count: int) -> str:
    return "1 item or version is" if count == 1 else f"{count} items and versions are"


async def _tenants(settings: Settings) -> list[str]:
    """Return the tenants of all API keys, the only tenants whose names are stored. Owner ids contain only hashes."""
    from aion_tools.operator.bootstrap import build_keys

    return sorted({key.tenant for key in await build_keys(settings).all()})


class _Work:
    """Searches and deletions. Each coroutine builds its own clients, because each runs in its own event loop."""

    def __init__(self, settings: Settings, owners: Sequence[str], *, keep_keys: bool) -> None:
        self._settings, self._owners, self._keep_keys = settings, owners, keep_keys
        self._progress = Progress()

    async def find(self) -> "OwnedData":
        return await self._found(self._erasure())

    async def delete(self, found: "OwnedData") -> "OwnedData":
        """Delete the found data, then search again for data written meanwhile, up to `PASSES` times. Return the rest."""
        erasure = self._erasure()
        for _ in range(PASSES):
            await erasure.delete(found, self._progress)
            found = await self._found(erasure)
            if found.is_empty:
                break
        return found

    def _erasure(self) -> "Erasure":
        from aion_tools.erasure.bootstrap import build_erasure

        return build_erasure(self._settings)

    async def _found(self, erasure: "Erasure") -> "OwnedData":
        from aion_tools.erasure.kinds import API_KEYS

        found = await erasure.find(self._owners, self._progress)
        return found.without(API_KEYS) if self._keep_keys else found
