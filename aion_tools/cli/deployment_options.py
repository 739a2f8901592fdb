"""Options that name a deployment or this folder's development server."""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from aion_tools.cli.aws_options import EMULATED, OF_AWS, aws, environment_set
from aion_tools.cli.options import Command
from aion_tools.dev.data_folder import SQLITE, LocalServer, RunningServer, find_local_server

PLACES = ("AION_TABLE", "AION_BUCKET", "AION_TASK_QUEUE_URL")
"""Environment variables with the table, bucket and task queue of a deployment on AWS."""


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
        return bool(self.server_url)

    @property
    def server_url(self) -> str:
        """URL of this folder's development server; "" if it does not run."""
        running = RunningServer.read(self._local.folder) if self._local is not None else None
        return running.url if running is not None else ""

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
            from aion_tools.deploy.functions import stack_environment

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
        with environment_set({}, OF_AWS):
            return command(*arguments, deployment=named, **options)

    return with_deployment


def _use_local(local: LocalServer) -> dict[str, str]:
    """Print the development server's name, set its AWS variables for the AWS SDK, and return its AION variables."""
    click.echo(f"Using {local.name}", err=True)
    of_aws = {name: value for name, value in local.environment.items() if name in OF_AWS}
    if of_aws:
        for name in OF_AWS:
            os.environ.pop(name, None)
        os.environ.update(of_aws)
    return {name: value for name, value in local.environment.items() if name.startswith("AION_")}
