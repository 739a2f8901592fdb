"""`aion smoke`: whether a deployed agent does what the official client asks of it; a line for each check."""

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from aion_core.cli import options
from aion_core.errors import ConfigurationError

EPILOG = """\b
Credentials, by the environment:
  TOKEN             sent as Authorization: Bearer
  API_KEY           sent in the header that the card names
  BASIC             name:password, for HTTP Basic
  none of them      a stack that asks for AWS_IAM, a REST API's and a Function
                    URL's address are asked with an AWS signature, by the
                    credentials that boto3 finds (--profile); who signs needs
                    execute-api:Invoke, or lambda:InvokeFunctionUrl and
                    lambda:InvokeFunction

\b
The exit code is 1 if a check failed, 2 if nothing could be checked. What is
skipped was not checked: its line says why."""


def _url(_: click.Context, __: click.Parameter, given: str) -> str:
    import httpx

    if not given:
        return ""
    try:
        url = httpx.URL(given)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("https", "http") or not url.host:
        raise click.BadParameter("it has to say where the deployment is, as https://…")
    return given


def _only(_: click.Context, __: click.Parameter, given: str) -> tuple[str, ...]:
    from aion_core.smoke.report import CHECKS

    names = tuple(name for name in given.split(",") if name)
    if unknown := sorted(set(names) - set(CHECKS)):
        raise click.BadParameter(f"there is no check {', '.join(unknown)}; there are {', '.join(CHECKS)}.")
    return names


@click.command(short_help="Check a deployed agent with the official client.", epilog=EPILOG)
@click.argument("url", default="", envvar="URL", callback=_url)
@click.option("--stack", envvar="AION_STACK", show_envvar=True, help="The deployment's stack, in the place of URL.")
@click.option(
    "--agent", default="", envvar="AGENT", help="The id of an agent of aion.yaml; the one at the root otherwise."
)
@click.option("--text", envvar="TEXT", help="What is said to it; best is what it takes some seconds over.")
@click.option(
    "--webhook", default="", envvar="WEBHOOK", help="A public https address that leads to a port here, by a tunnel."
)
@click.option("--webhook-port", default=8765, envvar="WEBHOOK_PORT", show_default=True, help="That port.")
@click.option(
    "--sign",
    default="auto",
    envvar="SIGN",
    show_default=True,
    help="auto, off, or the region that an AWS signature is for: the URL of a custom domain does not tell it.",
)
@click.option("--only", default="", envvar="ONLY", callback=_only, help="Only these checks, by commas.")
@click.option(
    "--patience", default=300.0, envvar="PATIENCE", show_default=True, help="How many seconds a check may take."
)
@options.aws
def smoke(url: str, stack: str | None, sign: str, text: str | None, **asked: Any) -> None:
    """Ask the agent at URL, or of --stack, for what clients ask: card, reply, stream, cancel, subscribe, webhooks."""
    from aion_core.smoke.credentials import NoCredentials, SmokeCredentials
    from aion_core.smoke.report import SmokeOptions, check

    if not url and not stack:
        raise click.UsageError("URL has to say where the deployment is, as https://…, or --stack which stack it is.")
    where = Endpoint(url, sign) if url else reach(stack or "", sign)
    try:
        credentials = SmokeCredentials.from_environ(os.environ, where.url, where.sign)
    except NoCredentials as error:
        raise click.UsageError(f"{error}.") from error
    asks = SmokeOptions(where.url, **asked)
    sys.exit(asyncio.run(check(replace(asks, text=text) if text else asks, credentials)))


@dataclass(frozen=True)
class Endpoint:
    """Address of a deployment."""

    url: str
    sign: str
    """As `aion smoke --sign` has it: auto, off, or a region."""


def stack_url(parameters: dict[str, str], outputs: dict[str, str]) -> str:
    """Return the URL at which clients reach the stack: the one that its cards name; "" if it has none."""
    domain = parameters.get("DomainName")
    return (
        parameters.get("BaseUrl")
        or (f"https://{domain}" if domain else "")
        or outputs.get("ApiUrl", "")
        or outputs.get("FunctionUrl", "").rstrip("/")
    )


def reach(stack: str, sign: str = "auto") -> Endpoint:
    """Return where the stack is, and how to sign for it; raises ConfigurationError without such a stack."""
    from aion_core.deploy import aws, cloudformation

    found = cloudformation.find(stack)
    url = stack_url(found.parameters, found.outputs) if found else ""
    if found is None or not url:
        raise ConfigurationError(
            f"There is no stack {stack!r} of aion's in this account and region. --region and --profile say where to look."
        )
    # The address of a domain or of a proxy does not tell what is behind it; the stack does.
    if sign == "auto" and found.parameters.get("ApiAuthorizer") == "AWS_IAM":
        return Endpoint(url, aws.region())
    return Endpoint(url, "off" if sign == "auto" and "ApiAuthorizer" in found.parameters else sign)
