"""Options that name an owner of tasks."""

import functools
from collections.abc import Callable
from typing import Any

import click

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in


def owner(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name an owner. Pass the owner id as `owner`, or "" if the user names no owner."""

    @click.option("--owner", help="Owner of the tasks, as printed by `aion why`, `aion tasks` and `aion dlq show`.")
    @click.option("--subject", help="Instead of --owner: a token's subject, or an API key's principal.")
    @click.option(
        "--issuer",
        help=f"Issuer of the --subject: a token's issuer, urn:aion:basic or urn:aws:iam.  [default: {API_KEY_ISSUER}, for "
        "API keys]",
    )
    @click.option("--tenant", help="Tenant of the --subject.")
    @functools.wraps(command)
    def with_owner(
        *arguments: Any,
        owner: str | None,
        subject: str | None,
        issuer: str | None,
        tenant: str | None,
        **options: Any,
    ) -> Any:
        if owner and subject:
            raise click.UsageError("Give --owner or --subject, not both.")
        if (issuer or tenant) and not subject:
            raise click.UsageError("--issuer and --tenant require a --subject.")
        if subject:
            owner = owner_of(subject, issuer or API_KEY_ISSUER, tenant or "")
        return command(*arguments, owner=owner or "", **options)

    return with_owner


def owner_of(subject: str, issuer: str, tenant: str) -> str:
    """Return the owner id of a subject, issuer and tenant, as stored in the table."""
    return owner_in(Principal(issuer, subject).owner, tenant)
