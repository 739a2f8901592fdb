"""Options shared by several commands, for aion.yaml, deployment, stack, owner, and AWS credentials."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in
from aion_core.errors import AionError, ConfigurationError
from aion_core.settings import WEB_ADDRESS, Settings
from aion_tools.dev.data_folder import SQLITE, LocalServer, RunningServer, find_local_server

if TYPE_CHECKING:
    from aion_core.loading.aion_yaml.agent import AgentConfig
    from aion_tools.deploy.samconfig import SamConfig

Command = Callable[..., Any]

DEFAULT_CONFIG = Path("aion.yaml")

EMULATED = "AWS_ENDPOINT_URL"

PLACES = ("AION_TABLE", "AION_BUCKET", "AION_TASK_QUEUE_URL")
"""Environment variables with the table, bucket and task queue of a deployment on AWS."""

_OF_AWS = (
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    EMULATED,
)
"""Environment variables read by the AWS SDK."""


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
    from aion_core.loading.deployment import read_agent_configs
    from aion_core.loading.suggestions import did_you_mean

    declared = read_agent_configs(found_config(config))
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


@dataclass(frozen=True)
class Deployment:
    """A deployment named by options or environment variables. Its stack is read from CloudFormation on first use."""

    stack: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """Values of options, by the name of their environment variable. They override the stack's values."""

    @functools.cached_property
    def environ(self) -> dict[str, str]:
        """Environment variables of the deployment's functions, or of this folder's development server."""
        return self.named_environ if self._local is None else {**self.named_environ, **_use_local(self._local)}

    @functools.cached_property
    def is_of_development(self) -> bool:
        """True if the commands use this folder's development server. All callers of this server count as one owner."""
        return self._local is not None

    @property
    def data_folder(self) -> Path | None:
        """Data folder of this folder's development server, or None for a deployment."""
        return self._local.folder if self._local is not None else None

    @property
    def server_runs(self) -> bool:
        """True if this folder's development server runs."""
        return self._local is not None and RunningServer.read(self._local.folder) is not None

    @functools.cached_property
    def _local(self) -> LocalServer | None:
        """Development server of this folder, or None if options or environment variables name a deployment.

        Computed once, before `_use_local` changes the environment.
        """
        names = (*PLACES, "AION_PUSH_QUEUE_URL", SQLITE, EMULATED)
        is_named = self.stack or self.given or any(os.environ.get(name) for name in names)
        return None if is_named else find_local_server()

    @functools.cached_property
    def named_environ(self) -> dict[str, str]:
        """Environment variables of the functions, without those of a local development server."""
        if self.stack:
            from aion_tools.operator.stacks import stack_environment

            return {**stack_environment(self.stack), **self.given}
        named = {name: value for name, value in os.environ.items() if name.startswith("AION_")}
        return {**named, **self.given}

    def settings(self, *needed: str, push_queue_url: str = "") -> Settings:
        """Return the settings of the deployment's functions. Only the variables in `needed` are required.

        `push_queue_url` overrides AION_PUSH_QUEUE_URL of the environment, but not that of a stack. Raises UsageError
        for a missing variable, before any read or write.
        """
        queue = {"AION_PUSH_QUEUE_URL": push_queue_url} if push_queue_url else {}
        environ = {**queue, **self.environ} if self.stack else {**self.environ, **queue}
        is_local = bool(environ.get(SQLITE))
        missing = [name for name in needed if not environ.get(name) and not is_local]
        if missing:
            flags = "--stack NAME, --table NAME" if missing == ["AION_TABLE"] else "--stack NAME"
            raise click.UsageError(
                f"Which deployment? Give {flags}, or set {', '.join(missing)}; or go to a folder in which `aion dev` has run."
            )
        # Ignore the settings of agents and encryption keys, because operator commands run no agent and decrypt nothing.
        without = {"AION_CONFIG", "AION_KMS_KEY", "AION_STORE", "AION_CARD_KEY_FILE", "AION_CARD_KEY_SECRET"}
        chosen = {name: value for name, value in environ.items() if name not in without}
        store = {"AION_STORE": "sqlite" if is_local else "dynamodb"}
        try:
            return Settings.from_environ({**dict.fromkeys(PLACES, "unknown"), **chosen, **store})
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error


def deployment(command: Command) -> Command:
    """Add the options that name a deployment, and pass it as `deployment`."""

    @click.option(
        "--stack",
        envvar="AION_STACK",
        show_envvar=True,
        help="The deployment's CloudFormation stack, such as aion-dev.",
    )
    @click.option(
        "--table",
        help="The deployment's table, instead of --stack. A command that reads a task or deletes data also needs the "
        "variables AION_BUCKET and AION_TASK_QUEUE_URL.  [default: AION_TABLE]",
    )
    @aws
    @functools.wraps(command)
    def with_deployment(*arguments: Any, stack: str | None, table: str | None, **options: Any) -> Any:
        named = Deployment(stack or "", {"AION_TABLE": table} if table else {})
        # Restore the AWS variables afterwards, because `_use_local` changes them for a development server.
        with _environment({}, _OF_AWS):
            return command(*arguments, deployment=named, **options)

    return with_deployment


def _use_local(local: LocalServer) -> dict[str, str]:
    """Print the development server's name, set its AWS variables for the AWS SDK, and return its AION variables."""
    click.echo(f"Using {local.name}", err=True)
    of_aws = {name: value for name, value in local.environment.items() if name in _OF_AWS}
    if of_aws:
        for name in _OF_AWS:
            os.environ.pop(name, None)
        os.environ.update(of_aws)
    return {name: value for name, value in local.environment.items() if name.startswith("AION_")}


def aws(command: Command) -> Command:
    """Add the options for AWS credentials, region and endpoint."""

    @click.option("--profile", help="Profile of your AWS configuration.")
    @click.option("--region", help="AWS region of the deployment.")
    @click.option("--endpoint-url", callback=web_address, help="URL of an AWS emulator.")
    @functools.wraps(command)
    def with_aws(
        *arguments: Any, profile: str | None, region: str | None, endpoint_url: str | None, **options: Any
    ) -> Any:
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
    with _environment({**dict.fromkeys(hidden, ""), **chosen}):
        yield


@contextmanager
def _environment(chosen: Mapping[str, str], kept: Sequence[str] = ()) -> Iterator[None]:
    """Set these environment variables within the block. A variable with an empty value is removed.

    Afterwards, restore the earlier values of these variables and of the variables named in `kept`.
    """
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
    """Return the AWS profile and the region from samconfig.toml. Values in the environment take precedence."""
    environ = os.environ
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or saved.get("region")
    is_named = environ.get("AWS_PROFILE") or environ.get("AWS_ACCESS_KEY_ID")
    return (None if is_named else saved.get("profile") or None), region or None


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
            raise click.UsageError("Which stack? Give --stack NAME: this folder's samconfig.toml has no stack_name.")
        with aws_environment(*saved_place(saved), None):
            return command(*arguments, stack=name, **given)

    return with_stack


def owner(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name an owner. Pass the owner id as `owner`, or "" if the user names no owner."""

    @click.option("--owner", help="Owner of the tasks, as printed by `aion why`, `aion tasks` and `aion dlq show`.")
    @click.option("--subject", help="Instead of --owner: a token's subject, or an API key's principal.")
    @click.option(
        "--issuer",
        help=f"Issuer of the --subject: a token's issuer, urn:aion:basic or urn:aws:iam.  [default: {API_KEY_ISSUER}, for "
        "API keys]",
    )
    @click.option("--tenant", help="Tenant of the --subject.")
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
            raise click.UsageError("Give --owner or --subject, not both.")
        if (issuer or tenant) and not subject:
            raise click.UsageError("--issuer and --tenant require a --subject.")
        if subject:
            owner = owner_of(subject, issuer or API_KEY_ISSUER, tenant or "")
        return command(*arguments, owner=owner or "", **options)

    return with_owner


def owner_of(subject: str, issuer: str, tenant: str) -> str:
    """Return the owner id of a subject, issuer and tenant, as stored in the table."""
    return owner_in(Principal(issuer, subject).owner, tenant)
