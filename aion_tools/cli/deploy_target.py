"""Target of a deployment: stack, region and template parameters. It asks for what is missing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli.steps import INDENT, step

if TYPE_CHECKING:
    from aion_tools.deploy.cloudformation import CloudFormationStack
    from aion_tools.deploy.parameters import TemplateParameters
    from aion_tools.deploy.samconfig import SamConfig
    from aion_tools.template.reader import Place


STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,127}")
NO_TERMINAL = "There is no terminal"
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_MAIL = re.compile(r"([^@ ]+@[^@ ]+)?")


@dataclass(frozen=True)
class DeployTarget:
    """Target of a deployment: stack name, region and template parameters."""

    stack: str
    region: str
    parameters: dict[str, str]
    """Template parameters from samconfig.toml, answers and flags. Other parameters keep their values in the stack."""
    effective: Mapping[str, str]
    """Parameters that the stack with the functions will have, as far as template.yaml shows."""
    before: "CloudFormationStack | None"
    """The stack as it is now, or None for a new one."""
    previous: Sequence[str]
    """A line for each parameter that this deployment does not set and whose earlier value CloudFormation keeps."""


def place(saved: "SamConfig", stack: str | None, *, is_interactive: bool) -> tuple[str, str]:
    """Return the stack's name and region. Ask for a missing value and save the answer in samconfig.toml."""
    from aion_tools.deploy import aws

    answers: dict[str, str] = {}
    name, region = stack or saved.get("stack_name"), aws.region()
    if not name:
        name = answers["stack_name"] = _ask(
            "Stack name", "aion-dev", "--stack", is_interactive=is_interactive, pattern=STACK_NAME
        )
    if not region:
        region = answers["region"] = _ask(
            "AWS region", "us-east-1", "--region", is_interactive=is_interactive, pattern=_REGION
        )
    _remember(saved, answers, {})
    return name, region


def complete_target(
    saved: "SamConfig",
    where: "Place",
    parameters: "TemplateParameters",
    given: Mapping[str, str],
    declared: Sequence[str],
    *,
    is_interactive: bool,
) -> DeployTarget:
    """Ask for missing template parameters, save the answers in samconfig.toml, and return the deployment's target."""
    from aion_tools.deploy import cloudformation, failures
    from aion_tools.deploy.parameters import ARCHITECTURE
    from aion_tools.deploy.table_layout import check_layout

    name = where.stack_name
    with step("stack") as running:
        before = cloudformation.find(name)
        if before is not None and before.status == "REVIEW_IN_PROGRESS":
            before = None
        if before is not None and before.status in failures.REFUSED and (failure := failures.failure_of(before)):
            raise failure
        check_layout(before)
        running.result = f"{name}, {f'{before.status} now' if before else 'new'}"
    earlier = before.parameters if before else {}
    known = {**earlier, **saved.parameters, **given}
    chosen: dict[str, str] = {}
    if is_interactive and declared and "ApiAuthorizer" in parameters.defaults.keys() - known.keys():
        click.echo(f"\nWho may call?  1  callers declared in aion.yaml, by {', '.join(declared)}")
        click.echo("               2  AWS credentials with the permission execute-api:Invoke")
        answer = click.prompt("Who may call", default="1", type=click.Choice(["1", "2"]))
        chosen["ApiAuthorizer"] = "NONE" if answer == "1" else "AWS_IAM"
    if (
        is_interactive
        and "AlarmEmail" in parameters.defaults.keys() - known.keys()
        and "AlarmTopic" not in {**parameters.passed, **known}
    ):
        chosen["AlarmEmail"] = _ask(
            "E-mail address for alarms (may be empty)", "", "", is_interactive=is_interactive, pattern=_MAIL
        )
    _remember(saved, {}, chosen)
    overrides = {**saved.parameters, **given}
    if ARCHITECTURE in parameters.defaults:
        # Without this, CloudFormation would keep the processor of the last deployment after a change of template.yaml.
        overrides[ARCHITECTURE] = parameters.defaults[ARCHITECTURE]
    values = {**earlier, **overrides}
    if refusals := parameters.refusals(values, where):
        raise ConfigurationError("\n  ".join(["CloudFormation would refuse these parameters:", *refusals]))
    effective = parameters.effective(values, where)
    _check_callers(effective, declared)
    _check_snap_start(effective, parameters.template.parent)
    previous = [
        f"{name}={value} stays from an earlier deployment; it is not in samconfig.toml"
        for name, value in sorted(earlier.items())
        if name not in overrides and parameters.defaults.get(name, value) != value
    ]
    return DeployTarget(name, where.region, overrides, effective, before, previous)


def _remember(saved: "SamConfig", answers: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    if answers or chosen:
        saved.remember(answers, chosen)
        names = ", ".join([*answers, *chosen])
        click.echo(f"{INDENT}{names} written to {saved.path.name}, environment {saved.environment}.")


def _check_callers(parameters: Mapping[str, str], declared: Sequence[str]) -> None:
    """Raise ConfigurationError for a deployment without authentication, because its API function would not start."""
    if "NONE" in (parameters.get("ApiAuthorizer"), parameters.get("FunctionUrlAuth")) and not declared:
        raise ConfigurationError(
            "ApiAuthorizer=NONE needs callers in aion.yaml, but there are no callers in it: the function would not start. Declare "
            "them under `security` in aion.yaml, or deploy with --parameter ApiAuthorizer=AWS_IAM."
        )


def _check_snap_start(parameters: Mapping[str, str], project: Path) -> None:
    """Raise ConfigurationError for images with SnapStart. The stacks refuse this too, but only after the upload."""
    from aion_tools.template import image_form

    value = parameters.get("SnapStart", "None")
    if value != "None" and image_form.is_wanted(project):
        raise ConfigurationError(
            f"SnapStart={value} is for zips, and aion.yaml has `image: true`. Remove one of them. Nothing was built."
        )


def _ask(subject: str, default: str, flag: str, *, is_interactive: bool, pattern: re.Pattern[str] | None = None) -> str:
    if not is_interactive:
        raise click.UsageError(
            f"{NO_TERMINAL} to ask for the {subject[0].lower() if subject[1].islower() else subject[0]}{subject[1:]}: give {flag}."
        )
    while True:
        answer = str(click.prompt(subject, default=default, show_default=bool(default))).strip()
        if pattern is None or pattern.fullmatch(answer):
            return answer
        click.echo(f"{answer!r} is invalid.")
