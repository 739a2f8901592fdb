"""Agent to which `aion chat` and `aion send` talk: the options that name it, and its URL."""

from typing import TYPE_CHECKING, Any

import click

from aion_core.errors import AionError
from aion_tools.cli import aws_options, options

if TYPE_CHECKING:
    from aion_tools.cli.chat.endpoint import Endpoint

EPILOG = """\b
Credentials from the environment: TOKEN, API_KEY, or BASIC=name:password.
Otherwise requests to AWS are signed with your AWS credentials."""


def target(command: Any) -> Any:
    """Add the options that name the agent, the conversation and the signature."""
    for option in (
        click.option(
            "--stack", envvar="AION_STACK", show_envvar=True, help="The deployment's stack, instead of a URL."
        ),
        options.agent,
        click.option("--context", "context_id", default="", help="Id of a conversation to continue."),
        click.option(
            "--sign", default="auto", show_default=True, help="auto, on, off, or the region of the AWS signature."
        ),
    ):
        command = option(command)
    return aws_options.aws(command)


class TargetMissing(AionError):
    """Error: the user has named no agent, and no development server runs in this folder."""


def endpoint_of(url: str, stack: str | None, sign: str) -> "Endpoint":
    """Return the agent's URL: the given URL, the URL of the stack, or the URL of this folder's development server.

    Raises TargetMissing if there is no such URL, and ConfigurationError for an unknown stack.
    """
    from aion_tools.cli.chat.endpoint import Endpoint, stack_endpoint
    from aion_tools.dev.data_folder import running_server_url

    running = running_server_url()
    if url:
        return Endpoint(url, sign, is_traced=bool(running) and f"{url}/".startswith(f"{running}/"))
    if stack:
        return stack_endpoint(stack, sign)
    if running:
        return Endpoint(running, "off", is_traced=True)
    raise TargetMissing("No `aion dev` is running in this folder. Start it, or name an agent by its URL or --stack.")
