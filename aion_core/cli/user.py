"""`aion user`: what a deployment's secret holds of a user of HTTP Basic."""

import json
import sys

import click

from aion_core.errors import ConfigurationError


@click.group()
def user() -> None:
    """Hash passwords for HTTP Basic."""


@user.command(
    short_help="Ask for a password, and print its hash.",
    name="hash",
    epilog="""\b
Examples:
  aion user hash alice
  aion user hash alice < password.txt""",
)
@click.argument("name")
def hash_user(name: str) -> None:
    """Ask for NAME's password, and print the JSON member that the secret of the users has to hold for them."""
    from aion_core.auth.schemes.basic import hash_password

    if not name or ":" in name or not name.isprintable():
        raise ConfigurationError("A name of HTTP Basic has no ':' and can be printed (RFC 7617).")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigurationError("The password is empty.")
    click.echo(json.dumps({name: hash_password(password)}))
