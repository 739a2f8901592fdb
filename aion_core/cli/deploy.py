"""`aion deploy`: this folder's agents on AWS, from the checks to a first streamed reply."""

import asyncio
import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.cli import options
from aion_core.cli.checklist import INDENT, step
from aion_core.cli.checks.check import Check, Status
from aion_core.cli.deployed import url_of
from aion_core.errors import AionError, ConfigurationError

if TYPE_CHECKING:
    from aion_core.agents.config import DeploymentConfig
    from aion_core.deploy.sam import Sam
    from aion_core.deploy.samconfig import SamConfig
    from aion_core.deploy.stacks import Stack

STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,127}")
NOBODY = "Nobody can be asked here"


def _parameter(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    from aion_core.deploy.samconfig import parameters

    try:
        return parameters(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _stack_name(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    if given and not STACK_NAME.fullmatch(given):
        raise click.BadParameter(f"{given!r} has to begin with a letter and consist of letters, digits and hyphens.")
    return given


@click.command(
    short_help="Deploy this folder's agents to AWS.",
    epilog="""\b
Examples:
  aion deploy
  aion deploy --env prod --region eu-west-1
  aion deploy --env prod --yes --parameter AlarmEmail=ops@example.com""",
)
@click.option("--env", "environment", default="default", show_default=True, help="The environment of samconfig.toml.")
@click.option("--stack", envvar="AION_STACK", show_envvar=True, callback=_stack_name, help="The stack's name.")
@click.option(
    "--parameter",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parameter,
    help="A parameter of template.yaml.",
)
@click.option("--yes", "-y", is_flag=True, help="Ask nothing, and deploy without showing the changes first.")
@click.option("--no-smoke", is_flag=True, help="Do not ask the deployed agent for a first reply.")
@options.aws
def deploy(environment: str, stack: str | None, given: dict[str, str], *, yes: bool, no_smoke: bool) -> None:
    """Check, build and deploy this folder's agents, and ask the deployment for a first streamed reply.

    What has to be known and no flag or samconfig.toml says is asked, on a terminal, and written into samconfig.toml; never a
    secret. In CI nobody is asked: give --yes.
    """
    from aion_core.deploy import aws, sam_cli
    from aion_core.deploy.sam import Sam
    from aion_core.deploy.samconfig import SamConfig

    project = Path.cwd()
    if not (project / "template.yaml").is_file():
        raise ConfigurationError("There is no template.yaml in this folder. Run `aion init`, which writes it.")
    asks = sys.stdin.isatty() and not yes
    if not asks and not yes:
        raise click.UsageError(f"{NOBODY}: say --yes to deploy without a question.")
    saved = SamConfig.read(project / "samconfig.toml", environment)
    _check_names({**saved.parameters, **given})
    with options.asking(*options.saved_place(saved), None):
        declared = _doctor(project)
        schemes = _schemes(declared)
        name, region = _place(saved, stack, asks=asks)
        with options.asking(None, region, None):
            with step("account") as under_way:
                account = aws.account()
                under_way.said = f"{account}, {os.environ.get('AWS_PROFILE') or 'your default credentials'}, {region}"
            # A value from a flag or samconfig.toml wins over the one derived from aion.yaml.
            given = {**_agent_rights(declared, region, account), **saved.parameters, **given}
            target = _asked(saved, name, region, given, schemes, asks=asks)
            with step("sam") as under_way:
                program = sam_cli.command()
                under_way.said = str(program)
            deployed = _deployed(Sam(program, project, saved), target, account, asks=asks)
            _told(deployed, schemes, smokes=not no_smoke)


# --- Checks ---


def _doctor(project: Path) -> "DeploymentConfig":
    """Make doctor's checks of this folder, and return what its aion.yaml declares, or what is found without one."""
    from aion_core.agents.config import read_deployment_config
    from aion_core.cli.checks import here
    from aion_core.cli.doctor import of_project

    config = project / "aion.yaml"
    config = config if config.is_file() else project
    with step("doctor") as under_way:
        found = [*of_project(config), *here.template(project)]
        for check in found:
            if check.status is not Status.OK:
                under_way.tell(f"{check.status} {check.name}: {check.said}")
                under_way.tell(f"  → {check.do}")
        if any(check.status is Status.FAILED for check in found):
            raise ConfigurationError(
                "What has FAILED above has to be mended first. Nothing was built, nothing was deployed."
            )
        under_way.said = _counted(found)
    return read_deployment_config(config)


def _schemes(declared: "DeploymentConfig") -> list[str]:
    """Return the schemes by which aion.yaml lets callers say who they are."""
    from aion_core.agents.security import declared_securities

    return sorted({name for security in declared_securities(declared.agents).values() for name in security.needed})


def _check_names(given: Mapping[str, str]) -> None:
    """Refuse a parameter that the template has not: SAM would leave it out without a word."""
    known = _defaults(Path("template.yaml"))
    for name in given:
        if name not in known:
            alike = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {alike[0]}?" if alike else " `aion upgrade` brings the newest template."
            raise ConfigurationError(f"template.yaml has no parameter {name}.{hint}")


def _counted(found: Sequence[Check]) -> str:
    counted = {status: sum(each.status is status for each in found) for status in Status}
    return ", ".join(f"{number} {status}" for status, number in counted.items() if number)


def _check_callers(parameters: Mapping[str, str], declared: Sequence[str]) -> None:
    """Refuse what would not start: a deployment of which nobody says who may call it."""
    if "NONE" in (parameters.get("ApiAuthorizer"), parameters.get("FunctionUrlAuth")) and not declared:
        raise ConfigurationError(
            "ApiAuthorizer=NONE leaves it to aion.yaml who may call, and aion.yaml declares nobody: the function would not "
            "start. Declare it under `security` in aion.yaml, or deploy with --parameter ApiAuthorizer=AWS_IAM."
        )


def _agent_rights(declared: "DeploymentConfig", region: str, account: str) -> dict[str, str]:
    """Return the parameters that let the functions read the secrets that aion.yaml names; never a secret."""
    from aion_core.agents.environment import template_parameters

    known = _defaults(Path("template.yaml"))
    wanted = template_parameters(declared, region, account)
    return {name: value for name, value in wanted.items() if name in known}


# --- Questions ---


@dataclass(frozen=True)
class Target:
    """Target of a deployment: account, region, stack and parameters."""

    stack: str
    region: str
    parameters: dict[str, str]
    """Those of samconfig.toml, of the answers and of the flags; of the rest the stack keeps what it has."""
    before: "Stack | None"
    """The stack as it is now."""


def _place(saved: "SamConfig", stack: str | None, *, asks: bool) -> tuple[str, str]:
    """Return the stack's name and its region, asked for where nothing says them, and remembered."""
    from aion_core.deploy import aws

    answers: dict[str, str] = {}
    name, region = stack or saved.get("stack_name"), aws.region()
    if not name:
        name = answers["stack_name"] = _ask("Stack name", "aion-dev", "--stack", asks=asks, pattern=STACK_NAME)
    if not region:
        region = answers["region"] = _ask("AWS region", "us-east-1", "--region", asks=asks, pattern=_REGION)
    _remember(saved, answers, {})
    return name, region


def _asked(
    saved: "SamConfig", name: str, region: str, given: Mapping[str, str], declared: Sequence[str], *, asks: bool
) -> Target:
    """Ask for the parameters that nothing says, remember the answers, and return what is deployed."""
    from aion_core.deploy import stacks
    from aion_core.deploy.changes import check_deployable

    with step("stack") as under_way:
        before = stacks.find(name)
        if before is not None and before.status == "REVIEW_IN_PROGRESS":
            before = None
        check_deployable(before)
        under_way.said = f"{name}, {f'{before.status} now' if before else 'new'}"
    known = {**(before.parameters if before else {}), **saved.parameters, **given}
    chosen: dict[str, str] = {}
    if asks and declared and "ApiAuthorizer" not in known:
        click.echo(f"\nWho may call?  1  whoever aion.yaml declares, by {', '.join(declared)}")
        click.echo("               2  requests signed with AWS credentials that may execute-api:Invoke it")
        answer = click.prompt("Who may call", default="1", type=click.Choice(["1", "2"]))
        chosen["ApiAuthorizer"] = "NONE" if answer == "1" else "AWS_IAM"
    if asks and "AlarmEmail" not in known and "AlarmTopic" not in known:
        chosen["AlarmEmail"] = _ask("E-mail address for alarms (empty for none)", "", "", asks=asks, pattern=_MAIL)
    _remember(saved, {}, chosen)
    _check_callers({**known, **chosen}, declared)
    return Target(name, region, {**saved.parameters, **given}, before)


def _remember(saved: "SamConfig", answers: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    if answers or chosen:
        saved.remember(answers, chosen)
        names = ", ".join([*answers, *chosen])
        click.echo(f"{INDENT}{saved.path.name} remembers {names} for the environment {saved.environment}.")


_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_MAIL = re.compile(r"([^@ ]+@[^@ ]+)?")


def _ask(what: str, default: str, flag: str, *, asks: bool, pattern: re.Pattern[str] | None = None) -> str:
    if not asks:
        raise click.UsageError(
            f"{NOBODY} for the {what[0].lower() if what[1].islower() else what[0]}{what[1:]}: say {flag}."
        )
    while True:
        answer = str(click.prompt(what, default=default, show_default=bool(default))).strip()
        if pattern is None or pattern.fullmatch(answer):
            return answer
        click.echo(f"{answer!r} cannot be used.")


# --- Build and deploy ---


def _deployed(sam: "Sam", target: Target, account: str, *, asks: bool) -> "Stack":
    """Build, show the changes, make them, and return the stack."""
    from aion_core.deploy import changes, stacks

    with step("build") as under_way:
        # A stack keeps its processor as all that it is not told anew, and the packages have to fit it.
        before = target.before.parameters if target.before else {}
        sam.build(under_way.tell, {**before, **target.parameters}.get("Architecture", ""))
        under_way.said = "the packages are in .aws-sam"
    with step("changes") as under_way:
        arn = sam.change_set(target.stack, target.region, target.parameters)
        change_set = changes.read(arn) if arn else None
        under_way.said = str(change_set) if change_set else "none: the stack is up to date"
    for previous in _previous(target):
        click.echo(f"{INDENT}{previous}")
    if change_set is not None:
        for lost in change_set.lost:
            click.echo(f"{INDENT}{lost}")
        if asks and not click.confirm(f"Deploy {target.stack} to account {account}, {target.region}?", default=True):
            changes.discard(arn, target.stack)
            raise click.exceptions.Exit(1)
        with step("deploy") as under_way:
            changes.execute(arn, target.stack, lambda event: under_way.progress(f"{event.path} {event.status}"))
            under_way.said = f"the stack {target.stack} is there"
    found = stacks.find(target.stack)
    if found is None:
        raise ConfigurationError(f"The stack {target.stack} is gone. Run `aion deploy` again.")
    return found


def _previous(target: Target) -> list[str]:
    """Return what an earlier deployment has chosen and this one does not name: CloudFormation keeps it."""
    if target.before is None:
        return []
    defaults = _defaults(Path("template.yaml"))
    return [
        f"{name}={value} stays, from an earlier deployment; samconfig.toml does not name it"
        for name, value in sorted(target.before.parameters.items())
        if name in defaults and name not in target.parameters and value != defaults[name]
    ]


def _defaults(template: Path) -> dict[str, str]:
    """Return the default of each of the template's parameters; raises ConfigurationError if it cannot be read."""
    from aion_core.template.file import TemplateError, load

    try:
        found = load(template).get("Parameters") or {}
    except TemplateError as error:
        raise ConfigurationError(f"{error}.") from error
    return {name: str(each.get("Default", "")) for name, each in found.items()}


# --- Afterwards ---


def _told(stack: "Stack", declared: Sequence[str], *, smokes: bool) -> None:
    """Ask for a first reply, and say where the deployment is and what it costs."""
    from aion_core.deploy import price

    url = url_of(stack.parameters, stack.outputs)
    failed = False
    if smokes:
        try:
            _first_reply(stack, url, declared)
        except AionError as error:
            click.echo(f"aion: {error}", err=True)
            failed = True
    click.echo(f"\n{stack.name} is deployed.")
    for what, said in (
        ("URL", url),
        ("card", f"{url}/.well-known/agent-card.json"),
        ("idle", price.idle(stack.parameters)),
        (
            "next",
            f"aion logs -f --stack {stack.name}, aion smoke --stack {stack.name}, aion destroy --stack {stack.name}",
        ),
    ):
        click.echo(f"  {what:5} {said}")
    if failed:
        sys.exit(1)


def _first_reply(stack: "Stack", url: str, declared: Sequence[str]) -> None:
    from aion_core.deploy import aws
    from aion_core.deploy.errors import DeployError
    from aion_core.smoke.credentials import Credentials, NoCredentials
    from aion_core.smoke.deployment import Failed
    from aion_core.smoke.first_reply import first_reply

    signs = stack.parameters.get("ApiAuthorizer", "AWS_IAM") == "AWS_IAM"
    given = [name for name in ("TOKEN", "API_KEY", "BASIC") if os.environ.get(name)]
    if not signs and not given:
        said = f"not asked for: callers need {', '.join(declared)}. TOKEN=…, API_KEY=… or BASIC=… before"
        click.echo(f"{'skipped':8} first reply: {said} `aion smoke --stack {stack.name}` checks it")
        return
    with step("first reply") as under_way:
        words = _Words()
        try:
            credentials = Credentials.from_environ(os.environ, url, aws.region() if signs else "off")
            under_way.clear()
            reply = asyncio.run(first_reply(url, credentials, words.tell))
        except (Failed, NoCredentials) as error:
            words.end()
            raise DeployError(
                "The stack is deployed, and its agent did not answer as it has to.",
                lines=[str(error)],
                do=f"`aion logs --stack {stack.name} --since 10m` says why; `aion smoke --stack {stack.name}` asks again.",
            ) from error
        words.end()
        how = "streamed" if reply.is_streamed else "whole, since its card declares no streaming"
        under_way.said = f"{reply.agent or 'the agent'} answered, {how}, after {reply.seconds:.1f} s"


class _Words:
    """Prints the words of a reply as they come."""

    def __init__(self) -> None:
        self._said = False

    def tell(self, words: str) -> None:
        """Print words behind those before."""
        click.echo(f"{'' if self._said else INDENT}{words}".replace("\n", f"\n{INDENT}"), nl=False)
        self._said = True

    def end(self) -> None:
        """End the line."""
        if self._said:
            click.echo()
