"""`aion deploy` checks, builds and deploys this folder's agents to AWS and requests a first streamed reply."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import aws_options
from aion_tools.cli.checks import CheckResult, Status
from aion_tools.cli.deploy_target import NO_TERMINAL, STACK_NAME, DeployTarget, complete_target, place
from aion_tools.cli.steps import INDENT, step

if TYPE_CHECKING:
    from aion_core.loading.aion_yaml.reading import DeploymentConfig
    from aion_tools.deploy.cloudformation import CloudFormationStack
    from aion_tools.deploy.parameters import TemplateParameters
    from aion_tools.deploy.sam import Sam


def _parameter(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    from aion_tools.deploy.samconfig import parameters

    try:
        return parameters(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _stack_name(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    if given and not STACK_NAME.fullmatch(given):
        raise click.BadParameter(f"{given!r} has to begin with a letter and contain only letters, digits and hyphens.")
    return given


@click.command(
    short_help="Deploy this folder's agents to AWS.",
    epilog="""\b
Examples:
  aion deploy
  aion deploy --env prod --region eu-west-1
  aion deploy --env prod --yes --parameter AlarmEmail=ops@example.com""",
)
@click.option("--env", "environment", default="default", show_default=True, help="The environment in samconfig.toml.")
@click.option("--stack", envvar="AION_STACK", show_envvar=True, callback=_stack_name, help="The stack's name.")
@click.option(
    "--parameter",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parameter,
    help="A parameter of template.yaml.",
)
@click.option("--plan", is_flag=True, help="Build and upload, list the changes of all nested stacks, and stop.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, even with confirm_changeset in samconfig.toml.")
@click.option("--no-reply", is_flag=True, help="Skip the first reply.")
@aws_options.aws
def deploy(
    environment: str, stack: str | None, given: dict[str, str], *, plan: bool, yes: bool, no_reply: bool
) -> None:
    """Check, build and deploy this folder's agents with SAM CLI, and ask for a first streamed reply.

    On a terminal it asks you to confirm the account, asks for missing settings, and writes the answers (never a
    secret) to samconfig.toml. Without a terminal, as in CI, give --yes.
    """
    from aion_tools.cli.checks.parameters import check_parameters
    from aion_tools.cli.deploy_summary import print_summary
    from aion_tools.deploy import aws, sam_install
    from aion_tools.deploy.parameters import TemplateParameters
    from aion_tools.deploy.sam import Sam
    from aion_tools.deploy.samconfig import SamConfig
    from aion_tools.template import stacks
    from aion_tools.template.reader import Place

    project = Path.cwd()
    if not (project / "template.yaml").is_file():
        raise ConfigurationError("There is no template.yaml in this folder. Run `aion init` to create it.")
    is_interactive = sys.stdin.isatty() and not yes
    if not (is_interactive or yes or plan):
        raise click.UsageError(f"{NO_TERMINAL}: give --yes to deploy without questions.")
    saved = SamConfig.read(project / "samconfig.toml", environment)
    if stacks.are_used(project):
        stacks.write(project)
    parameters = TemplateParameters.read(project)
    parameters.check({**saved.parameters, **given})
    other = aws_options.other_region(saved)
    with aws_options.aws_environment(*aws_options.saved_place(saved), None):
        name, region = place(saved, stack, is_interactive=is_interactive)
        with aws_options.aws_environment(None, region, None):
            with step("account") as running:
                account = aws.account()
                running.result = f"{account}, {os.environ.get('AWS_PROFILE') or 'your default credentials'}, {region}"
                running.result += f" (of samconfig.toml; your profile's is {other})" if other else ""
            if is_interactive and not plan:
                _confirm(f"Deploy {name} to account {account}, {region}?", default=True)
            declared = _run_doctor(project)
            schemes = _schemes(declared)
            # Let flags and samconfig.toml override the template parameters derived from aion.yaml.
            given = {**_agent_rights(declared, parameters, region, account), **saved.parameters, **given}
            target = complete_target(
                saved, Place(account, region, "", name), parameters, given, schemes, is_interactive=is_interactive
            )
            for previous in target.previous:
                click.echo(f"{INDENT}{previous}")
            for check in check_parameters(target.effective, region, declared.agents, declared.remotes):
                click.echo("\n".join(_lines(check)))
            with step("sam") as running:
                program = sam_install.command()
                running.result = str(program)
            sam = Sam(program, project, saved)
            sam.build()
            loses = _misses_state(target, project)
            asks = not yes and saved.confirms_changes
            if plan or asks:
                loses |= _print_plan(sam, target)
            if plan:
                return
            if asks or (loses and is_interactive):
                _confirm("Deploy these changes?", default=not loses)
            print_summary(_deployed(sam, target), schemes, requests_reply=not no_reply)


def _confirm(question: str, *, default: bool) -> None:
    if not click.confirm(question, default=default):
        raise click.exceptions.Exit(1)


def _run_doctor(project: Path) -> "DeploymentConfig":
    """Run the checks of `aion doctor`. Return the configuration of aion.yaml or, without one, of discovered agents."""
    from aion_core.loading.deployment import read_deployment_config
    from aion_tools.cli.doctor import of_project

    config = project / "aion.yaml"
    config = config if config.is_file() else project
    with step("doctor") as running:
        found = list(of_project(config, project))
        for check in found:
            if check.status is not Status.OK:
                for line in _lines(check):
                    running.print(line)
        if any(check.status is Status.FAILED for check in found):
            raise ConfigurationError("Fix the FAILED checks first. Nothing was built or deployed.")
        running.result = _counted(found)
    return read_deployment_config(config)


def _lines(check: CheckResult) -> tuple[str, str]:
    return f"{check.status} {check.name}: {check.message}", f"  → {check.next_step}"


def _schemes(declared: "DeploymentConfig") -> list[str]:
    """Return the names of the authentication schemes required by the agents in aion.yaml."""
    from aion_core.loading.auth_policies import read_auth_policies

    return sorted({name for policy in read_auth_policies(declared.agents).values() for name in policy.required_schemes})


def _counted(found: Sequence[CheckResult]) -> str:
    counted = {status: sum(each.status is status for each in found) for status in Status}
    return ", ".join(f"{number} {status}" for status, number in counted.items() if number)


def _agent_rights(
    declared: "DeploymentConfig", parameters: "TemplateParameters", region: str, account: str
) -> dict[str, str]:
    """Return the template parameters that permit reading the secrets named in aion.yaml, without secret values.

    Raises ConfigurationError if template.yaml does not take them.
    """
    from aion_tools.deploy.agent_rights import template_parameters

    wanted = template_parameters(declared, region, account)
    settable = parameters.of_application - parameters.passed.keys()
    found = {
        name: value for name, value in wanted.items() if name in parameters.defaults or (value and name in settable)
    }
    parameters.check(found)
    return found


def _misses_state(target: DeployTarget, project: Path) -> bool:
    """Print which classes in the state of waiting tasks the new code does not have. Return True if there are any."""
    from aion_tools.cli.checks.waiting_tasks import check_waiting_tasks

    if target.before is None:
        return False
    with step("waiting tasks") as running:
        config = project / "aion.yaml"
        running.result, warnings = check_waiting_tasks(target.before, config if config.is_file() else project)
    for check in warnings:
        click.echo("\n".join(f"{INDENT}{line}" for line in _lines(check)))
    return bool(warnings)


def _print_plan(sam: "Sam", target: DeployTarget) -> bool:
    """Print the changes of all nested stacks, and change nothing. Return True if a resource is deleted or replaced."""
    from aion_tools.deploy.change_sets import take_plan

    sam.deploy(target.stack, target.region, target.parameters, "--no-execute-changeset")
    plan = take_plan(target.stack)
    click.echo(f"\nChanges of {target.stack} with its nested stacks:")
    for line in map(str, plan.changes) if plan.changes else ["none: the stack is up to date"]:
        click.echo(f"  {line}")
    if plan.unread:
        click.echo(f"  The changes inside nested stacks are unknown: {plan.unread}")
    return any(change.loses_data for change in plan.changes)


def _deployed(sam: "Sam", target: DeployTarget) -> "CloudFormationStack":
    """Deploy the built packages, and return the stack. Raises DeployError with the reasons inside of nested stacks."""
    from aion_tools.deploy import cloudformation, failures
    from aion_tools.deploy.errors import DeployError

    event = failures.last_event(target.before.id) if target.before else ""
    try:
        sam.deploy(target.stack, target.region, target.parameters)
    except DeployError:
        failed = cloudformation.find(target.stack)
        if failed is None or failures.last_event(failed.id) == event:
            raise
        raise failures.failure_of(failed) or DeployError("`sam deploy` failed.") from None
    found = cloudformation.find(target.stack)
    if found is None:
        raise ConfigurationError(f"The stack {target.stack} is gone. Run `aion deploy` again.")
    return found
