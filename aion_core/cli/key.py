"""`aion key`: makes the API keys of a deployment, lists them, takes them away. A key is shown once, when it is made."""

import asyncio
from datetime import timedelta
from pathlib import Path

import click

from aion_core.bootstrap.operator import build_keys
from aion_core.cli import options
from aion_core.cli.options import Deployment
from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError

MAX_WORD = 256


@click.group()
def key() -> None:
    """Make, list and revoke the API keys of a deployment."""


@key.command(
    short_help="Make a key, and print it this once.",
    epilog="""\b
Examples:
  aion key create alice@example.com --stack aion-dev
  aion key create billing --agent helper --scope orders.read --days 90""",
)
@click.argument("principal")
@click.option("--agent", "agents", multiple=True, help="An agent that it opens; every agent where none is named.")
@click.option("--scope", "scopes", multiple=True, help="A scope that it gives.")
@click.option("--tenant", default="", help="The tenant that it is for; its holder chooses where nothing is said.")
@click.option(
    "--days", type=click.IntRange(1, 3650), help="After how many days it expires; never where nothing is said."
)
@options.config
@options.deployment
def create(
    principal: str,
    agents: tuple[str, ...],
    scopes: tuple[str, ...],
    tenant: str,
    days: int | None,
    config: Path,
    deployment: Deployment,
) -> None:
    """Make a key for PRINCIPAL, who owns what is done with it, and print it: this once, for only its hash is kept.

    To replace a key, make another one for the same principal, and revoke the first when nobody uses it any more.
    """
    from aion_core.agents.config import read_agent_configs
    from aion_core.auth.api_keys import make_key

    _check_word("The principal", principal)
    if tenant:
        _check_word("The tenant", tenant)
    for scope in scopes:
        if not scope or " " in scope:
            raise ConfigurationError(f"{scope!r} is no scope: scopes are words without spaces.")
    if agents:
        declared = read_agent_configs(config.expanduser())
        if unknown := sorted(set(agents) - declared.keys()):
            raise ConfigurationError(f"{config} has no agent {unknown[0]!r}; it has {', '.join(declared)}.")
    now = SystemClock().now()
    made = make_key(
        principal,
        now=now,
        agents=frozenset(agents) if agents else None,
        scopes=frozenset(scopes),
        tenant=tenant,
        expires=now + timedelta(days=days) if days else None,
    )
    asyncio.run(build_keys(deployment.settings("AION_TABLE")).add(made.record))
    click.echo(f"The key {made.record.id} of {principal}. It is not shown again:", err=True)
    click.echo(made.text)


@key.command("list", short_help="Print the keys, never whole.")
@options.deployment
def list_keys(deployment: Deployment) -> None:
    """Print the keys, the newest first: id, principal, last four characters, when it was made, and what it is for."""
    keys = asyncio.run(build_keys(deployment.settings("AION_TABLE")).all())
    if not keys:
        click.echo("No keys.", err=True)
    for found in keys:
        agents = ",".join(sorted(found.agents)) if found.agents is not None else "every agent"
        more = [
            *(["scopes " + ",".join(sorted(found.scopes))] if found.scopes else []),
            *([f"tenant {found.tenant}"] if found.tenant else []),
            *([f"until {found.expires:%Y-%m-%d}"] if found.expires else []),
        ]
        words = [found.id, found.principal, f"…{found.last4}", f"{found.created:%Y-%m-%d %H:%M}", agents, *more]
        click.echo("\t".join(words))


@key.command(short_help="Take a key away, at once.")
@click.argument("key_id")
@options.deployment
def revoke(key_id: str, deployment: Deployment) -> None:
    """Take the key KEY_ID away, at once; tasks stay their principal's."""
    # Who pastes the key itself means its id, and has shown it to the shell's history already.
    found = key_id.split("_")[1] if key_id.startswith("aion_") and key_id.count("_") >= 2 else key_id
    if not asyncio.run(build_keys(deployment.settings("AION_TABLE")).revoke(found)):
        raise ConfigurationError(f"There is no key {found}. See `aion key list`.")
    click.echo(f"The key {found} is revoked.")


def _check_word(what: str, word: str) -> None:
    if not word.strip() or len(word) > MAX_WORD or not word.isprintable():
        raise ConfigurationError(f"{what} has to be a name of 1 to {MAX_WORD} characters that can be printed.")
