"""End of `aion deploy`: a first streamed reply of the agent, and the deployment's URL, price and next commands."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from aion_core.errors import AionError
from aion_tools.cli.chat.endpoint import Endpoint, stack_url
from aion_tools.cli.steps import INDENT, step

if TYPE_CHECKING:
    from aion_tools.deploy.cloudformation import CloudFormationStack


def print_summary(stack: "CloudFormationStack", declared: Sequence[str], *, requests_reply: bool) -> None:
    """Request a first reply if `requests_reply` is True. Print the deployment's URL, card, idle price and next commands."""
    from aion_tools.deploy import cloudformation, price

    application = cloudformation.application(stack)
    url = stack_url(application.parameters, application.outputs)
    failed = False
    if requests_reply:
        try:
            _first_reply(stack.name, application.parameters, url, declared)
        except AionError as error:
            click.echo(f"Error: {error}", err=True)
            failed = True
    click.echo(f"\n{stack.name} is deployed.")
    for name, text in (
        ("URL", url),
        ("card", f"{url}/.well-known/agent-card.json"),
        ("idle", price.idle(application.parameters)),
        (
            "next",
            f"aws logs tail --follow /aws/lambda/{stack.name}-api, aion doctor {url}, "
            f"aion destroy --stack {stack.name}",
        ),
    ):
        click.echo(f"  {name:5} {text}")
    if failed:
        sys.exit(1)


def _first_reply(stack: str, parameters: Mapping[str, str], url: str, declared: Sequence[str]) -> None:
    from aion_tools.cli.chat.output import PlainPrinter
    from aion_tools.cli.chat.timed_reply import UNBUFFER, timed_reply
    from aion_tools.deploy import aws
    from aion_tools.deploy.errors import DeployError

    signs = parameters.get("ApiAuthorizer", "AWS_IAM") == "AWS_IAM"
    given = [name for name in ("TOKEN", "API_KEY", "BASIC") if os.environ.get(name)]
    if not signs and not given:
        click.echo(
            f"{'skipped':8} first reply: callers need {', '.join(declared)}. Set TOKEN, API_KEY or BASIC, and run "
            f"`aion doctor {url}`."
        )
        return
    with step("first reply") as running:
        running.clear()
        endpoint = Endpoint(url, aws.region() if signs else "off")
        try:
            reply = asyncio.run(timed_reply(endpoint, show=PlainPrinter(INDENT)))
        except click.ClickException as error:
            raise DeployError(
                "The stack is deployed, but its agent's first reply failed.",
                lines=[error.message],
                next_step=f"See `aws logs tail /aws/lambda/{stack}-api`; `aion doctor {url}` tries again.",
            ) from error
        running.result = (
            f"{reply.agent or 'the agent'} answered, {reply.arrival}, after {reply.first or reply.end:.1f} s"
        )
    if reply.is_buffered:
        click.echo(f"{INDENT}→ {UNBUFFER}")
