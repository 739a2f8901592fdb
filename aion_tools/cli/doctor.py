"""`aion doctor` checks this machine and project, or a deployment, and sends messages to a URL."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from aion_core.errors import AionError
from aion_tools import terminal
from aion_tools.cli import deployment_options, options
from aion_tools.cli.chat.timed_reply import TEXT
from aion_tools.cli.checks import CheckResult, Status, failed
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.environment_set import environment_set
from aion_tools.cli.error_text import error_text
from aion_tools.cli.steps import waiting
from aion_tools.template import stacks

if TYPE_CHECKING:
    from aion_core.loading.aion_yaml.agent import AgentConfig
    from aion_core.loading.aion_yaml.remotes import RemoteConfig


def _place(context: click.Context, parameter: click.Parameter, given: str) -> Path | str | None:
    """Return a URL as a string, and a path as a Path. Raises BadParameter for an invalid URL."""
    if "://" in given:
        return options.web_address(context, parameter, given)
    return Path(given) if given else None


_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "red"}


@click.command(
    short_help="Check this project, or a deployment.",
    epilog="""\b
Examples:
  aion doctor
  aion doctor src/agent.py:graph
  aion doctor --stack aion-prod
  aion doctor https://agents.example.com/agents/helper
  aion doctor https://agents.example.com --stack aion-prod --json

\b
Credentials of the messages to a URL, from the environment: TOKEN, API_KEY, or
BASIC=name:password. Otherwise requests are signed with your AWS credentials,
if AWS requires it.""",
)
@click.argument("place", metavar="[PATH | URL]", default="", callback=_place)
@options.config
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, envvar="PORT", show_default=True, help="Port of `aion dev`."
)
@click.option("--text", default=TEXT, show_default=True, help="Message to the agent at URL.")
@click.option("--no-template", is_flag=True, help="Skip the check of template.yaml, which takes a few seconds.")
@options.as_json
@deployment_options.deployment
def doctor(
    place: Path | str | None,
    config: Path,
    port: int,
    text: str,
    deployment: Deployment,
    *,
    no_template: bool,
    as_json: bool,
) -> None:
    """Check this machine and project, or, with URL, --stack or --table, a deployment.

    PATH is the project's folder or the agent's file, as for `aion dev`, by default the --config.

    The agent at URL gets two messages: one with a blocking and one with a streamed reply. Nothing else changes.

    Each line is ok, warning or FAILED, with the next step. The exit code is 1 if a check FAILED.
    """
    output = _output_of_results() if as_json else None
    # Hide log messages, because the results of the checks contain the same information.
    logging.disable(logging.CRITICAL)
    try:
        found: list[CheckResult] = []
        checks = _checks(place, config, port, text, deployment, no_template=no_template)
        while (check := _next(checks)) is not None:
            found.append(check)
            if not as_json:
                _print(check)
    finally:
        logging.disable(logging.NOTSET)
    if as_json:
        document = [
            {"name": each.name, "status": each.status, "message": each.message, "next": each.next_step}
            for each in found
        ]
        click.echo(json.dumps(document, indent=2), file=output)
    else:
        counted = {status: sum(each.status is status for each in found) for status in Status}
        click.echo(f"\n{', '.join(f'{number} {status}' for status, number in counted.items())}.")
    if any(each.status is Status.FAILED for each in found):
        sys.exit(1)


def _output_of_results() -> TextIO:
    """Return a stream to standard output, and redirect all other output of this process to standard error.

    Agents' code may write to standard output, also by child processes, by threads and at exit.
    """
    stream = terminal.beneath(sys.stdout)
    is_captured = stream is not sys.__stdout__  # a test captures it
    if not is_captured and sys.stderr is not None:
        stream = open(os.dup(1), "w", encoding=stream.encoding, errors=stream.errors)  # noqa: SIM115 - open until exit
        os.dup2(2, 1)
    return stream


def _next(checks: Iterator[CheckResult]) -> CheckResult | None:
    """Run the next check while showing a spinner. Return its result, or None after the last check."""
    with waiting("Checking"):
        return next(checks, None)


def _checks(
    place: Path | str | None, config: Path, port: int, text: str, deployment: Deployment, *, no_template: bool
) -> Iterator[CheckResult]:
    from aion_tools.cli.checks import local

    url, path = (place, None) if isinstance(place, str) else ("", place)
    deployed = bool(url or deployment.stack or deployment.given)
    if not deployed:
        yield from local.check_machine(port)
        config = path.expanduser() if path is not None else options.found_config(config)
        yield from of_project(config, None if no_template else _with_template())
        return
    config = (path or config).expanduser()
    if config.is_dir():
        config /= options.DEFAULT_CONFIG
    declared, results = local.check_config(config)
    agents = declared.agents if declared is not None else {}
    # Skip a missing aion.yaml, because a deployment can be checked without the file.
    yield from results if config.is_file() else ()
    remotes = declared.remotes if declared is not None else {}
    yield from asyncio.run(_collected(_deployed(url, text, deployment, config, agents, remotes)))


def of_project(config: Path, with_template: Path | None) -> Iterator[CheckResult]:
    """Yield the results of checks of aion.yaml, the agents' code, their environment variables, the package and the template.

    `config` is the path of an aion.yaml, or a folder, file or module with agents as for `aion dev`. In a folder without
    agents only this is reported.
    """
    from aion_tools.cli.checks import local

    declared, results = local.check_config(config)
    yield from results
    if declared is None and not local.is_file(config):
        return
    variables, results = local.check_environment(config)
    yield from results
    with environment_set(variables):
        yield from local.check_agents(declared) if declared is not None else ()
    place = Path(str(config).partition(":")[0])
    yield from local.check_package(place) if place.exists() else ()
    yield from local.check_template(with_template) if with_template is not None else ()


async def _deployed(
    url: str,
    text: str,
    deployment: Deployment,
    config: Path,
    agents: Mapping[str, "AgentConfig"],
    remotes: Mapping[str, "RemoteConfig"],
) -> AsyncIterator[CheckResult]:
    from aion_core.loading.deployment import read_deployment_config
    from aion_tools.cli.checks import endpoint
    from aion_tools.cli.checks.parameters import check_stack_parameters
    from aion_tools.cli.checks.resources import AGAIN, check_agent_secrets, check_resources, check_stack
    from aion_tools.cli.checks.triggers import check_triggers

    environ: Mapping[str, str] = {}
    try:
        environ = deployment.named_environ
    except AionError as error:
        yield failed("stack", error_text(error), AGAIN)
    if deployment.stack and environ:
        yield await check_stack(deployment.stack)
        for check in await check_stack_parameters(deployment.stack, agents, remotes):
            yield check
    urls = [url] if url else [environ[name] for name in ("AION_API_URL", "AION_FUNCTION_URL") if environ.get(name)]
    if environ.get("AION_BASE_URL") and not url:
        # If a base URL is configured, check only this URL, because the agent cards name it and clients use no other.
        urls = [environ["AION_BASE_URL"]]
    for each in urls:
        async for check in endpoint.check_endpoint(each, text if url else ""):
            yield check
    if environ.get("AION_TABLE"):
        async for check in check_resources(environ):
            yield check
    if deployment.stack and environ:
        async for check in check_triggers(deployment.stack, environ):
            yield check
    if deployment.stack and environ and agents:
        async for check in check_agent_secrets(read_deployment_config(config), environ):
            yield check
    async for check in endpoint.check_issuers(agents):
        yield check


async def _collected(checks: AsyncIterator[CheckResult]) -> list[CheckResult]:
    return [check async for check in checks]


def _with_template() -> Path | None:
    """Return this folder or the next one above it with a template and its stacks, or None."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / "infra").is_dir() or stacks.are_used(each)), None)


def _print(check: CheckResult) -> None:
    terminal.line((f"{check.status:8}", {"fg": _COLOURS.get(check.status)}), f" {check.name}: {check.message}")
    if check.next_step and check.status is not Status.OK:
        click.echo(f"         → {check.next_step}")
