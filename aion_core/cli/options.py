"""Options that several commands have: which aion.yaml, which deployment, and as whom AWS is asked."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.dev.place import Local, find_local
from aion_core.errors import ConfigurationError
from aion_core.settings import WEB_ADDRESS, Settings

if TYPE_CHECKING:
    from aion_core.deploy.samconfig import SamConfig


from aion_core.auth.principal import API_KEY_ISSUER, Principal

Command = Callable[..., Any]

DEFAULT_CONFIG = Path("aion.yaml")

EMULATED = "AWS_ENDPOINT_URL"

PLACES = ("AION_TABLE", "AION_BUCKET", "AION_TASK_QUEUE_URL")
"""Variables that name a deployment on AWS."""

_SQLITE = "AION_SQLITE_FOLDER"

_OF_AWS = (
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    EMULATED,
)
"""Variables of the environment that the AWS SDK reads."""


def config(command: Command) -> Command:
    """Give the command the option --config."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=DEFAULT_CONFIG,
        envvar="AION_CONFIG",
        show_default=True,
        show_envvar=True,
        help="The aion.yaml that declares the agents; paths in it are relative to its folder.",
    )(command)


def found_config(config: Path) -> Path:
    """Return the file that --config names, or this folder, to be searched, if the default file is not there."""
    config = config.expanduser()
    return Path() if config == DEFAULT_CONFIG and not config.is_file() else config


def base_url(command: Command) -> Command:
    """Give the command the option --base-url."""
    return click.option(
        "--base-url",
        default="http://127.0.0.1:8000",
        envvar="AION_BASE_URL",
        show_default=True,
        show_envvar=True,
        callback=web_address,
        help="Where clients reach the server.",
    )(command)


def as_json(command: Command) -> Command:
    """Give the command the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def web_address(_: click.Context, __: click.Parameter, given: str) -> str:
    """Return the URL of an option; raises BadParameter where it is none."""
    if given and not WEB_ADDRESS.fullmatch(given):
        raise click.BadParameter(f"{given!r} has to be an http or https URL without a query.")
    return given


@dataclass(frozen=True)
class Deployment:
    """A deployment as the options and the environment name it; its stack is asked when a name is needed."""

    stack: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """What options say, by the variable that they stand for; it goes before what the stack says."""

    @functools.cached_property
    def environ(self) -> dict[str, str]:
        """The environment of the deployment's functions, as far as it is known; the development server here is found."""
        return self.named_environ if self._local is None else {**self.named_environ, **_used(self._local)}

    @functools.cached_property
    def is_of_development(self) -> bool:
        """True for the development server here, whose callers are all one owner."""
        return self._local is not None

    @functools.cached_property
    def _local(self) -> Local | None:
        """The development server here, None if a deployment is named; asked once, before the environment is changed."""
        names = (*PLACES, "AION_PUSH_QUEUE_URL", _SQLITE, EMULATED)
        is_named = self.stack or self.given or any(os.environ.get(name) for name in names)
        return None if is_named else find_local()

    @functools.cached_property
    def named_environ(self) -> dict[str, str]:
        """The same of what is named, by options or by the environment."""
        if self.stack:
            from aion_core.bootstrap.operator import stack_environment

            return {**stack_environment(self.stack), **self.given}
        named = {name: value for name, value in os.environ.items() if name.startswith("AION_")}
        return {**named, **self.given}

    def settings(self, *needed: str, push_queue_url: str = "") -> Settings:
        """Return the settings of its functions; those that are not needed may be missing.

        `push_queue_url` goes before the environment's, and behind the stack's. Raises UsageError, before anything is
        read or written, if one that is needed is missing.
        """
        queue = {"AION_PUSH_QUEUE_URL": push_queue_url} if push_queue_url else {}
        environ = {**queue, **self.environ} if self.stack else {**self.environ, **queue}
        is_local = bool(environ.get(_SQLITE))
        missing = [name for name in needed if not environ.get(name) and not is_local]
        if missing:
            *options, last = ["--stack NAME", *(["--table NAME"] if missing == ["AION_TABLE"] else [])]
            said = ", ".join([*options, last])
            raise click.UsageError(f"Which deployment? Say {said}, or set {', '.join(missing)}.")
        # Who only looks needs no agents, and no key: what is encrypted stays so.
        without = {"AION_CONFIG", "AION_KMS_KEY", "AION_STORE", "AION_CARD_KEY_FILE", "AION_CARD_KEY_SECRET"}
        chosen = {name: value for name, value in environ.items() if name not in without}
        store = {"AION_STORE": "sqlite" if is_local else "dynamodb"}
        try:
            return Settings.from_environ({**dict.fromkeys(PLACES, "unknown"), **chosen, **store})
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error


def deployment(command: Command) -> Command:
    """Give the command the options that name a deployment, and hand it the `deployment`."""

    @click.option(
        "--stack",
        envvar="AION_STACK",
        show_envvar=True,
        help="The deployment's CloudFormation stack, such as aion-dev: its outputs name all the rest.",
    )
    @click.option(
        "--table", help="The deployment's table: the stack's output TableName. Where neither is said: AION_TABLE."
    )
    @aws
    @functools.wraps(command)
    def with_deployment(*arguments: Any, stack: str | None, table: str | None, **options: Any) -> Any:
        named = Deployment(stack or "", {"AION_TABLE": table} if table else {})
        # The environment of a development server may be put over this one.
        with _environment({}, _OF_AWS):
            return command(*arguments, deployment=named, **options)

    return with_deployment


def _used(local: Local) -> dict[str, str]:
    """Return the environment of the development server here, and let AWS's SDK use it; tell which one is used."""
    click.echo(f"Using {local.name}", err=True)
    of_aws = {name: value for name, value in local.environment.items() if name.startswith("AWS_")}
    if of_aws:
        for name in _OF_AWS:
            os.environ.pop(name, None)
        os.environ.update(of_aws)
    return {name: value for name, value in local.environment.items() if name.startswith("AION_")}


def aws(command: Command) -> Command:
    """Give the command the options that say as whom, and where, AWS is asked."""

    @click.option("--profile", help="The profile of your AWS configuration whose credentials are used.")
    @click.option("--region", help="The AWS region of the deployment.")
    @click.option("--endpoint-url", callback=web_address, help="Where AWS is, when it is an emulator.")
    @functools.wraps(command)
    def with_aws(
        *arguments: Any, profile: str | None, region: str | None, endpoint_url: str | None, **options: Any
    ) -> Any:
        with asking(profile, region, endpoint_url):
            return command(*arguments, **options)

    return with_aws


@contextmanager
def asking(profile: str | None, region: str | None, endpoint_url: str | None) -> Iterator[None]:
    """Let AWS's SDK find what the options say, where it looks for everything else, until the block ends."""
    said = {
        "AWS_PROFILE": profile,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        EMULATED: endpoint_url,
    }
    chosen = {name: value for name, value in said.items() if value}
    # A profile that is named here goes before credentials of the environment, as in the AWS CLI.
    hidden = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN") if profile else ()
    with _environment({**dict.fromkeys(hidden, ""), **chosen}):
        yield


@contextmanager
def _environment(chosen: Mapping[str, str], kept: Sequence[str] = ()) -> Iterator[None]:
    """Set these variables, or take those away that are empty, while the block lasts; put them, and `kept`, back."""
    before = {name: os.environ.get(name) for name in (*chosen, *kept)}
    _set(chosen)
    try:
        yield
    finally:
        _set({name: value or "" for name, value in before.items()})


def _set(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value


def saved_place(saved: "SamConfig") -> tuple[str | None, str | None]:
    """Return the profile and the region that samconfig.toml says, each where the shell's environment says none."""
    environ = os.environ
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or saved.get("region")
    is_named = environ.get("AWS_PROFILE") or environ.get("AWS_ACCESS_KEY_ID")
    return (None if is_named else saved.get("profile") or None), region or None


def stack(command: Command) -> Command:
    """Give the command the options --stack and --env, and hand it the name of the `stack`.

    The region of samconfig.toml's environment is asked where neither an option nor the shell's environment names one.
    """

    @click.option(
        "--stack", envvar="AION_STACK", show_envvar=True, help="The stack's name; samconfig.toml's otherwise."
    )
    @click.option(
        "--env", "environment", default="default", show_default=True, help="The environment of samconfig.toml."
    )
    @functools.wraps(command)
    def with_stack(*arguments: Any, stack: str | None, environment: str, **given: Any) -> Any:
        from aion_core.deploy.samconfig import SamConfig

        saved = SamConfig.read(Path("samconfig.toml"), environment)
        name = stack or saved.get("stack_name")
        if not name:
            raise click.UsageError("Which stack? Say --stack NAME: samconfig.toml of this folder names none.")
        with asking(*saved_place(saved), None):
            return command(*arguments, stack=name, **given)

    return with_stack


def owner(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options that name an owner, and hand it the `owner`, "" where none is named."""

    @click.option("--owner", help="Whose tasks, as logs, dead letters and this command print it.")
    @click.option("--subject", help="Instead of --owner: the subject of the token, or the principal of the API key.")
    @click.option(
        "--issuer",
        help=f"Of the --subject: the token's issuer; {API_KEY_ISSUER} (API keys) where nothing is said. "
        "urn:aion:basic and urn:aws:iam are those of HTTP Basic and AWS IAM.",
    )
    @click.option("--tenant", help="The subject's things in this tenant.")
    @functools.wraps(command)
    def with_owner(
        *arguments: Any,
        owner: str | None,
        subject: str | None,
        issuer: str | None,
        tenant: str | None,
        **options: Any,
    ) -> Any:
        if owner and subject:
            raise click.UsageError("Say --owner or --subject, not both.")
        if (issuer or tenant) and not subject:
            raise click.UsageError("--issuer and --tenant are of a --subject: say which.")
        if subject:
            owner = owner_of(subject, issuer or API_KEY_ISSUER, tenant or "")
        return command(*arguments, owner=owner or "", **options)

    return with_owner


def owner_of(subject: str, issuer: str, tenant: str) -> str:
    """Return the owner that the table has of the subject."""
    from aion_core.web.request_context import owner_in

    return owner_in(Principal(issuer, subject).owner, tenant)
