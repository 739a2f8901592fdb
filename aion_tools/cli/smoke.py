"""`aion smoke` checks a deployed agent with the official A2A client."""

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import aws_options, options

EPILOG = """\b
Credentials from the environment:
  TOKEN             sent as Authorization: Bearer
  API_KEY           sent in the header named by the card
  BASIC             name:password, for HTTP Basic
  otherwise         requests to a stack with AWS_IAM, a REST API or a Function
                    URL are signed with your AWS credentials (--profile). They
                    need execute-api:Invoke, or lambda:InvokeFunctionUrl and
                    lambda:InvokeFunction

\b
The exit code is 1 if a check failed, 2 if nothing could be checked. The line
of a skipped check states the reason."""


def _url(_: click.Context, __: click.Parameter, given: str) -> str:
    import httpx

    if not given:
        return ""
    try:
        url = httpx.URL(given)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("https", "http") or not url.host:
        raise click.BadParameter("it has to be the deployment's URL, as https://…")
    return given


def _only(_: click.Context, __: click.Parameter, given: str) -> tuple[str, ...]:
    from aion_tools.smoke.report import CHECKS

    names = tuple(name for name in given.split(",") if name)
    if unknown := sorted(set(names) - set(CHECKS)):
        raise click.BadParameter(f"unknown check {', '.join(unknown)}; the checks are {', '.join(CHECKS)}.")
    return names


@click.command(short_help="Check a deployed agent with the official client.", epilog=EPILOG)
@click.argument("url", default="", envvar="URL", callback=_url)
@click.option("--stack", envvar="AION_STACK", show_envvar=True, help="The deployment's stack, instead of URL.")
@click.option(
    "--agent",
    default="",
    envvar="AGENT",
    shell_complete=options.agent_ids,
    help="Id of an agent in aion.yaml.  [default: the agent at the root]",
)
@click.option("--text", envvar="TEXT", help="Message to the agent; a reply of several seconds is best.")
@click.option("--webhook", default="", envvar="WEBHOOK", help="Public https URL of a tunnel to --webhook-port.")
@click.option(
    "--webhook-port",
    type=click.IntRange(1, 65535),
    default=8765,
    envvar="WEBHOOK_PORT",
    show_default=True,
    help="Port of the webhook on this machine.",
)
@click.option(
    "--sign",
    default="auto",
    envvar="SIGN",
    show_default=True,
    help="auto, off, or the region of the AWS signature: needed for a custom domain.",
)
@click.option("--only", default="", envvar="ONLY", callback=_only, help="Only these checks, separated by commas.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    envvar="TIMEOUT",
    show_default=True,
    help="Time limit of each check, in seconds.",
)
@aws_options.aws
def smoke(url: str, stack: str | None, sign: str, text: str | None, **chosen: Any) -> None:
    """Check the agent at URL, or of --stack, as its clients use it: card, reply, stream, cancel, subscribe, webhooks."""
    from aion_tools.smoke.credentials import NoCredentials, SmokeCredentials
    from aion_tools.smoke.report import SmokeOptions, check

    if not url and not stack:
        raise click.UsageError("Give the deployment's URL, as https://…, or its --stack.")
    endpoint = Endpoint(url, sign) if url else stack_endpoint(stack or "", sign)
    try:
        credentials = SmokeCredentials.from_environ(os.environ, endpoint.url, endpoint.sign)
    except NoCredentials as error:
        raise click.UsageError(f"{error}.") from error
    smoke_options = SmokeOptions(endpoint.url, **chosen)
    sys.exit(asyncio.run(check(replace(smoke_options, text=text) if text else smoke_options, credentials)))


@dataclass(frozen=True)
class Endpoint:
    """URL of a deployment, and the setting `--sign` for requests to it."""

    url: str
    sign: str
    """Value of `aion smoke --sign`: auto, off, or a region."""


def stack_url(parameters: dict[str, str], outputs: dict[str, str]) -> str:
    """Return the base URL that the stack's agent cards contain; "" if the stack has no HTTP entry point."""
    domain = parameters.get("DomainName")
    return (
        parameters.get("BaseUrl")
        or (f"https://{domain}" if domain else "")
        or outputs.get("ApiUrl", "")
        or outputs.get("FunctionUrl", "").rstrip("/")
    )


def stack_endpoint(stack: str, sign: str = "auto") -> Endpoint:
    """Look up the URL of a stack and, if it needs AWS signatures, their region.

    Raises ConfigurationError for an unknown stack.
    """
    from aion_tools.deploy import aws, cloudformation

    found = cloudformation.find(stack)
    found = cloudformation.application(found) if found else None
    url = stack_url(found.parameters, found.outputs) if found else ""
    if found is None or not url:
        raise ConfigurationError(
            f"There is no aion stack {stack!r} in this account and region. Check --region and --profile."
        )
    # Read from the stack's parameters whether AWS verifies signatures, because the URL of a custom domain does not show
    # it.
    if sign == "auto" and found.parameters.get("ApiAuthorizer") == "AWS_IAM":
        return Endpoint(url, aws.region())
    return Endpoint(url, "off" if sign == "auto" and "ApiAuthorizer" in found.parameters else sign)
