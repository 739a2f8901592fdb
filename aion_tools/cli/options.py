"""Options shared by several commands: aion.yaml, agent, base URL, JSON, confirmation."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.environment import WEB_ADDRESS
from aion_core.errors import AionError, ConfigurationError

if TYPE_CHECKING:
    from aion_core.loading.aion_yaml.agent import AgentConfig


Command = Callable[..., Any]
DEFAULT_CONFIG = Path("aion.yaml")


class StoppedByInterrupt(click.Command):
    """Command that Ctrl-C ends with exit code 0 and no traceback, even before its server handles signals."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. On Ctrl-C, exit with code 0."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(0)


def config(command: Command) -> Command:
    """Add the option --config."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=DEFAULT_CONFIG,
        envvar="AION_CONFIG",
        show_default=True,
        show_envvar=True,
        help="The agents' aion.yaml; its paths are relative to its folder.",
    )(command)


def found_config(config: Path) -> Path:
    """Return the value of --config or, if the default file is missing, the current folder, to search it for agents."""
    config = config.expanduser()
    return Path() if config == DEFAULT_CONFIG and not config.is_file() else config


def declared_agents(config: Path, named: Iterable[str]) -> "Mapping[str, AgentConfig]":
    """Return the agents in the file of --config. Raises ConfigurationError if an id in `named` is not among them."""
    from aion_core.loading.deployment import read_deployment_config
    from aion_core.loading.suggestions import did_you_mean

    declared = read_deployment_config(found_config(config)).agents
    for name in named:
        if name not in declared:
            hint = did_you_mean(name, declared) or f"It declares {', '.join(declared)}."
            raise ConfigurationError(f"{config} has no agent {name!r}. {hint}")
    return declared


def agent_ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the agent ids in the file of --config that begin with the incomplete word, for shell completion."""
    config = context.params.get("config") or os.environ.get("AION_CONFIG") or DEFAULT_CONFIG
    try:
        return [name for name in declared_agents(Path(config), ()) if name.startswith(incomplete)]
    except AionError:
        return []  # suggest nothing, because the command itself reports an unreadable aion.yaml


def agent(command: Command) -> Command:
    """Add the option --agent, for the id of the agent that gets the message."""
    return click.option(
        "--agent",
        default="",
        shell_complete=agent_ids,
        help="Id of an agent in aion.yaml.  [default: the agent at the root]",
    )(command)


def base_url(command: Command) -> Command:
    """Add the option --base-url."""
    return click.option(
        "--base-url",
        default="http://127.0.0.1:8000",
        envvar="AION_BASE_URL",
        show_default=True,
        show_envvar=True,
        callback=web_address,
        help="URL of the server for clients.",
    )(command)


def as_json(command: Command) -> Command:
    """Add the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def yes(command: Command) -> Command:
    """Add the option --yes."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str) -> None:
    """Ask the user on standard error, and abort the command unless the answer is yes.

    Raises UsageError if standard input ends or is closed, such as in a script.
    """
    try:
        is_confirmed = click.confirm(question, err=True)
    except (click.Abort, RuntimeError):  # `input()` raises RuntimeError if standard input is closed
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise click.UsageError("There is no terminal to ask for confirmation: give --yes.") from None
    if not is_confirmed:
        raise click.Abort


def web_address(_: click.Context, __: click.Parameter, given: str) -> str:
    """Validate the URL given to an option. Raises BadParameter if it is not an http or https URL without a query."""
    if given and not WEB_ADDRESS.fullmatch(given):
        raise click.BadParameter(f"{given!r} has to be an http or https URL without a query, as http://127.0.0.1:8000.")
    return given
