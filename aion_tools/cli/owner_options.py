"""Options that name an owner of tasks."""

import functools
from collections.abc import Callable
from typing import Any

import click

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in
from aion_tools.cli import options

SCANS = "Reading the whole table, since no owner is given (--owner or --subject). This is slow for a large table."
"""Notice of a command that searches for a task without its owner."""

SCANS_FOR_PART = (
    "Reading the whole table, since the owner has no task with this whole id. This is slow for a large table."
)
"""Notice of a command that searches for a task of an owner by a part of its id."""


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


def listed_by(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `owner`, and those of an agent and a context, by which a list of tasks is read."""

    @owner
    @click.option(
        "--agent",
        default="",
        shell_complete=options.agent_ids,
        help="Only tasks of this agent; required with an owner.",
    )
    @click.option("--context", "context_id", default="", help="Only tasks of this context; requires an owner.")
    @functools.wraps(command)
    def checked(*arguments: Any, owner: str, agent: str, context_id: str, **more: Any) -> Any:
        if owner and not agent:
            raise click.UsageError("Tasks are listed by owner and agent: give --agent too.")
        if context_id and not owner:
            raise click.UsageError("--context requires an owner (--owner or --subject).")
        return command(*arguments, owner=owner, agent=agent, context_id=context_id, **more)

    return checked


def owner_of(subject: str, issuer: str, tenant: str) -> str:
    """Return the owner id of a subject, issuer and tenant, as stored in the table."""
    return owner_in(Principal(issuer, subject).owner, tenant)
