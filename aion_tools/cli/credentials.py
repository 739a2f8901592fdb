"""`aion key` manages the API keys of a deployment, and `aion user` hashes passwords for HTTP Basic."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_tools.cli import deployment_options, documents, options
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.steps import result_of

if TYPE_CHECKING:
    from aion_core.auth.api_keys import ApiKeys, KeyRecord

MAX_NAME = 256


@click.group(cls=HintingGroup)
def key() -> None:
    """Create, list and revoke the API keys of a deployment."""


@key.command(
    short_help="Create a key, and print it once.",
    epilog="""\b
Examples:
  aion key create alice@example.com --stack aion-dev
  aion key create billing --agent helper --scope orders.read --days 90""",
)
@click.argument("principal")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    shell_complete=options.agent_ids,
    help="Agent allowed by the key; may be repeated.  [default: every agent]",
)
@click.option("--scope", "scopes", multiple=True, help="Scope of the key; may be repeated.")
@click.option("--tenant", default="", help="Tenant of the key.  [default: the caller chooses]")
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.  [default: never]")
@options.config
@options.as_json
@deployment_options.deployment
def create(
    principal: str,
    agents: tuple[str, ...],
    scopes: tuple[str, ...],
    tenant: str,
    days: int | None,
    config: Path,
    deployment: Deployment,
    *,
    as_json: bool,
) -> None:
    """Create an API key for PRINCIPAL, the owner of its tasks. Print it once, because the table holds only its hash.

    To replace a key, create another one for the same principal, and revoke the old one when it is no longer used.
    """
    from aion_core.auth.schemes.api_key import make_key
    from aion_core.auth.tenants import TENANT_RULE, is_tenant

    _check_name(principal)
    if tenant and not is_tenant(tenant):
        raise ConfigurationError(f"The tenant has to be {TENANT_RULE}: requests can state no other.")
    for scope in scopes:
        if not scope or " " in scope:
            raise ConfigurationError(f"{scope!r} is not a scope: a scope has no spaces.")
    if agents:
        options.declared_agents(config, agents)
    now = SystemClock().now()
    new = make_key(
        principal,
        now=now,
        agents=frozenset(agents) if agents else None,
        scopes=frozenset(scopes),
        tenant=tenant,
        expires=now + timedelta(days=days) if days else None,
    )
    result_of(_keys(deployment).add(new.record), "Storing the key")
    if as_json:
        click.echo(json.dumps({"key": new.text, **_document(new.record)}, indent=2))
        return
    click.echo(f"Key {new.record.id} of {principal}. It is not shown again:", err=True)
    click.echo(new.text)


@key.command("list", short_help="Print the keys, without their secrets.")
@options.as_json
@deployment_options.deployment
def list_keys(deployment: Deployment, *, as_json: bool) -> None:
    """Print the id, principal, last four characters, time of creation, agents and limits of each key, newest first."""
    rows = [_document(found) for found in result_of(_keys(deployment).all(), "Reading the keys")]
    for row in [] if as_json else rows:
        row["agents"] = row["agents"] if row["agents"] is not None else "every agent"
    documents.print_rows(rows, rows[0].keys() if rows else (), "keys", as_json=as_json)


@key.command(short_help="Revoke a key at once.")
@click.argument("key_id")
@deployment_options.deployment
def revoke(key_id: str, deployment: Deployment) -> None:
    """Revoke the API key KEY_ID at once. Tasks created with it still belong to its principal."""
    # Accept the whole key as well as its id, because a refusal would not remove the key from the shell's history.
    found = key_id.split("_")[1] if key_id.startswith("aion_") and key_id.count("_") >= 2 else key_id
    if not result_of(_keys(deployment).revoke(found), "Revoking the key"):
        raise ConfigurationError(f"There is no key {found}. See `aion key list`.")
    click.echo(f"Key {found} is revoked.")


def _document(record: "KeyRecord") -> dict[str, Any]:
    """Return the key's record as a JSON object, without its hash. `agents` is null if the key allows every agent."""
    return {
        "id": record.id,
        "principal": record.principal,
        "last4": record.last4,
        "created": record.created.isoformat(timespec="seconds"),
        "agents": sorted(record.agents) if record.agents is not None else None,
        "scopes": sorted(record.scopes),
        "tenant": record.tenant,
        "expires": record.expires.isoformat(timespec="seconds") if record.expires else None,
    }


def _keys(deployment: Deployment) -> "ApiKeys":
    from aion_tools.operator.bootstrap import build_keys

    return build_keys(deployment.settings("AION_TABLE"))


def _check_name(principal: str) -> None:
    if not principal.strip() or len(principal) > MAX_NAME or not principal.isprintable():
        raise ConfigurationError(f"The principal has to be a name of 1 to {MAX_NAME} printable characters.")


@click.group(cls=HintingGroup)
def user() -> None:
    """Hash passwords for HTTP Basic."""


@user.command(
    short_help="Ask for a password and print its hash.",
    name="hash",
    epilog="""\b
Examples:
  aion user hash alice
  aion user hash alice < password.txt""",
)
@click.argument("name")
def hash_user(name: str) -> None:
    """Ask for the password of the user NAME, and print its hash as JSON for the secret with all users."""
    from aion_core.auth.schemes.basic_users import hash_password

    if not name or ":" in name or not name.isprintable():
        raise ConfigurationError("A name for HTTP Basic has printable characters and no ':' (RFC 7617).")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigurationError("The password is empty.")
    click.echo(json.dumps({name: hash_password(password)}))
