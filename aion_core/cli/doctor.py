"""`aion doctor`: what is not as it has to be, here and deployed, and what to do next. It changes nothing."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from aion_core.agents.config import AgentConfig, read_deployment_config
from aion_core.cli import options
from aion_core.cli.checks.check import Check, Status
from aion_core.cli.options import Deployment
from aion_core.shipped import shipped


@click.command(
    short_help="Look for what is wrong, here or deployed.",
    epilog="""\b
Examples:
  aion doctor
  aion doctor --stack aion-prod
  aion doctor --url https://agents.example.com --stack aion-prod --json""",
)
@options.config
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, envvar="PORT", show_default=True, help="Of `aion dev`."
)
@click.option("--url", default="", callback=options.web_address, help="The deployment's URL, as clients have it.")
@click.option("--no-template", is_flag=True, help="Do not look at template.yaml, which takes some seconds.")
@options.as_json
@options.deployment
def doctor(config: Path, port: int, url: str, deployment: Deployment, *, no_template: bool, as_json: bool) -> None:
    """Look for what is wrong: on this machine, or, with --stack, --table or --url, with a deployment.

    Each line is ok, warning or FAILED, and says what to do next. It exits 1 where one has FAILED.
    """
    # What the checks say is said by them.
    logging.disable(logging.CRITICAL)
    try:
        found: list[Check] = []
        for check in _checks(config.expanduser(), port, url, deployment, no_template=no_template):
            found.append(check)
            if not as_json:
                _print(check)
    finally:
        logging.disable(logging.NOTSET)
    if as_json:
        told = [{"name": each.name, "status": each.status, "said": each.said, "do": each.do} for each in found]
        click.echo(json.dumps(told, indent=2))
    else:
        counted = {status: sum(each.status is status for each in found) for status in Status}
        click.echo(f"\n{', '.join(f'{number} {status}' for status, number in counted.items())}.")
    if any(each.status is Status.FAILED for each in found):
        sys.exit(1)


def _checks(config: Path, port: int, url: str, deployment: Deployment, *, no_template: bool) -> Iterator[Check]:
    from aion_core.cli.checks import here

    deployed = bool(url or deployment.stack or deployment.given)
    if not deployed:
        yield from here.machine(port)
        yield from of_project(options.found_config(config))
        yield from () if no_template else here.template(_project())
        return
    declared, said = here.read(config)
    agents = declared.agents if declared is not None else {}
    # Of an aion.yaml that is not here nothing is known, and nothing need be.
    yield from said if config.is_file() else ()
    yield from asyncio.run(_told(_deployed(url, deployment, config, agents)))


def of_project(config: Path) -> Iterator[Check]:
    """Look at what aion.yaml declares, at its agents' code and variables, and at the files that a package would hold.

    `config` is the file, or a folder without one, which is searched as `aion dev` does.
    """
    from aion_core.cli.checks import here

    declared, said = here.read(config)
    yield from said
    variables, told = here.environment(config)
    yield from told
    with _set(variables):
        yield from here.load(declared) if declared is not None else ()
    yield from here.package(config) if config.exists() else ()


async def _deployed(
    url: str, deployment: Deployment, config: Path, agents: Mapping[str, AgentConfig]
) -> AsyncIterator[Check]:
    from aion_core.cli.checks import served
    from aion_core.cli.checks.resources import agent_secrets, resources

    environ = deployment.named_environ
    urls = [url] if url else [environ[name] for name in ("AION_API_URL", "AION_FUNCTION_URL") if environ.get(name)]
    if environ.get("AION_BASE_URL") and not url:
        # The one that clients have.
        urls = [environ["AION_BASE_URL"]]
    for each in urls:
        async for check in served.served(each):
            yield check
    if environ.get("AION_TABLE"):
        async for check in resources(environ):
            yield check
    if deployment.stack and agents:
        async for check in agent_secrets(read_deployment_config(config), environ):
            yield check
    async for check in served.issuers(agents):
        yield check


async def _told(checks: AsyncIterator[Check]) -> list[Check]:
    return [check async for check in checks]


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these variables, which the environment has not, within the block."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def _project() -> Path | None:
    here = Path.cwd()
    folders = (here, *here.parents, shipped())
    return next((each for each in folders if (each / "template.yaml").is_file() and (each / "infra").is_dir()), None)


def _print(check: Check) -> None:
    click.echo(f"{check.status:8} {check.name}: {check.said}")
    if check.do and check.status is not Status.OK:
        click.echo(f"         → {check.do}")
