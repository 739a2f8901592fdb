"""Options for AWS: credentials, region, endpoint, and the stack named in samconfig.toml."""

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_tools.cli.options import Command, web_address

if TYPE_CHECKING:
    from aion_tools.deploy.samconfig import SamConfig


EMULATED = "AWS_ENDPOINT_URL"
OF_AWS = (
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    EMULATED,
)
"""Environment variables read by the AWS SDK."""


def aws(command: Command) -> Command:
    """Add the options for AWS credentials, region and endpoint."""

    @click.option("--profile", help="Profile from your AWS configuration; its region is used too.")
    @click.option("--region", help="AWS region of the deployment.")
    @click.option("--endpoint-url", callback=web_address, help="URL of an AWS emulator.")
    @functools.wraps(command)
    def with_aws(
        *arguments: Any, profile: str | None, region: str | None, endpoint_url: str | None, **options: Any
    ) -> Any:
        if profile and not region and not _region_of_environ():
            region = _region_of(profile)
        with aws_environment(profile, region, endpoint_url):
            return command(*arguments, **options)

    return with_aws


@contextmanager
def aws_environment(profile: str | None, region: str | None, endpoint_url: str | None) -> Iterator[None]:
    """Set profile, region and endpoint in the environment, for the AWS SDK, until the block ends."""
    # Copy AWS_REGION to AWS_DEFAULT_REGION, because boto3 reads only the latter. So AWS_REGION overrides the profile's
    # region, as in the AWS CLI.
    region = region or os.environ.get("AWS_REGION")
    variables = {
        "AWS_PROFILE": profile,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        EMULATED: endpoint_url,
    }
    chosen = {name: value for name, value in variables.items() if value}
    # With --profile, hide the credentials in the environment, because boto3 would prefer them to the profile.
    hidden = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN") if profile else ()
    with environment_set({**dict.fromkeys(hidden, ""), **chosen}):
        yield


@contextmanager
def environment_set(chosen: Mapping[str, str], kept: Sequence[str] = ()) -> Iterator[None]:
    """Set these environment variables within the block. A variable with an empty value is removed.

    Afterwards, restore the earlier values of these variables and of the variables named in `kept`.
    """
    before = {name: os.environ.get(name) for name in (*chosen, *kept)}
    _set(chosen)
    try:
        yield
    finally:
        _set({name: value or "" for name, value in before.items()})


def configured_region() -> str:
    """Return the AWS region of the environment or of the developer's profile, or "" if there is none."""
    return _region_of_environ() or _region_of(os.environ.get("AWS_PROFILE"))


def _region_of_environ() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""


def _region_of(profile: str | None) -> str:
    """Return the region of an AWS profile, by default the default one; "" if it has none or does not exist."""
    import botocore.session
    from botocore.exceptions import BotoCoreError

    try:
        return str(botocore.session.Session(profile=profile).get_scoped_config().get("region") or "")
    except BotoCoreError:
        return ""  # a request to AWS reports a missing profile


def _set(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value


def saved_place(saved: "SamConfig") -> tuple[str | None, str | None]:
    """Return the AWS profile and the region from samconfig.toml. Values in the environment take precedence."""
    environ = os.environ
    region = _region_of_environ() or saved.get("region")
    is_named = environ.get("AWS_PROFILE") or environ.get("AWS_ACCESS_KEY_ID")
    return (None if is_named else saved.get("profile") or None), region or None


def other_region(saved: "SamConfig") -> str:
    """Return the region of the AWS profile if samconfig.toml selects another one, or ""."""
    chosen = saved.get("region")
    if _region_of_environ() or not chosen:
        return ""
    of_profile = _region_of(os.environ.get("AWS_PROFILE") or saved.get("profile") or None)
    return of_profile if of_profile != chosen else ""


def stack(command: Command) -> Command:
    """Add the options --stack and --env, and pass the stack's name as `stack`.

    samconfig.toml's region applies unless an option or the environment names one.
    """

    @click.option(
        "--stack", envvar="AION_STACK", show_envvar=True, help="The stack's name.  [default: samconfig.toml's]"
    )
    @click.option("--env", "environment", default="default", show_default=True, help="Environment of samconfig.toml.")
    @functools.wraps(command)
    def with_stack(*arguments: Any, stack: str | None, environment: str, **given: Any) -> Any:
        from aion_tools.deploy.samconfig import SamConfig

        saved = SamConfig.read(Path("samconfig.toml"), environment)
        name = stack or saved.get("stack_name")
        if not name:
            raise click.UsageError(
                "Which stack? Give --stack NAME: no samconfig.toml in this folder has a stack_name for the environment."
            )
        with aws_environment(*saved_place(saved), None):
            return command(*arguments, stack=name, **given)

    return with_stack
