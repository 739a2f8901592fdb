"""Whose tasks: the owner as the table has it, or the subject and issuer that it is made of."""

import functools
from collections.abc import Callable
from typing import Any

import click

from aion_core.auth.principal import API_KEY_ISSUER, Principal


def owner(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options that name an owner, and hand it the `owner`, "" where none is named."""

    @click.option("--owner", help="Whose tasks, as logs, dead letters and this command print it.")
    @click.option("--subject", help="Instead of --owner: the subject of the token, or the principal of the API key.")
    @click.option(
        "--issuer",
        help=f"Of the --subject: the token's issuer; {API_KEY_ISSUER} (API keys) where nothing is said. "
        "urn:aion:basic and urn:aws:iam are those of HTTP Basic and AWS IAM.",
    )
    @click.option("--tenant", help="The subject's things in this tenant.")
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
            raise click.UsageError("Say --owner or --subject, not both.")
        if (issuer or tenant) and not subject:
            raise click.UsageError("--issuer and --tenant are of a --subject: say which.")
        if subject:
            owner = owner_of(subject, issuer or API_KEY_ISSUER, tenant or "")
        return command(*arguments, owner=owner or "", **options)

    return with_owner


def owner_of(subject: str, issuer: str, tenant: str) -> str:
    """Return the owner that the table has of the subject."""
    from aion_core.web.request_context import owner_in

    return owner_in(Principal(issuer, subject).owner, tenant)
