"""The option --stack of commands that need a stack's name alone; samconfig.toml says it where nothing else does."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aion_core.cli import options

Command = Callable[..., Any]


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
        with options.asking(*options.saved_place(saved), None):
            return command(*arguments, stack=name, **given)

    return with_stack
