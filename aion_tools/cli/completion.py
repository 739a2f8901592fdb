"""`aion completion` prints or installs shell completion for the `aion` command."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from aion_core.errors import ConfigurationError

SHELLS = ("bash", "zsh", "fish")

VARIABLE = "_AION_COMPLETE"
"""Environment variable that the shell sets to request completions from the command."""


@click.command(
    short_help="Print or install shell completion.",
    epilog="""\b
Examples:
  aion completion --install
  aion completion zsh >> ~/.zshrc""",
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Install the completion for your user, instead of printing it.")
@click.pass_context
def completion(context: click.Context, shell: str | None, *, install: bool) -> None:
    """Print the completion script for SHELL, by default for the shell in the environment variable SHELL.

    --install writes the script into your folder for completions, which bash and fish read. For zsh, it adds a line to
    .zshrc.
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise click.UsageError(f"Which shell? Name one: {', '.join(SHELLS)}.")
    if not install:
        click.echo(_script(context, chosen))
        return
    try:
        path = _install(context, chosen)
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}.") from error
    click.echo(f"Installed in {path}. A new {chosen} completes `aion` by the tab key.")


def _script(context: click.Context, shell: str) -> str:
    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101  # click supports each shell of SHELLS
    return found(root.command, {}, root.info_name or "aion", VARIABLE).source()


def _install(context: click.Context, shell: str) -> Path:
    """Write the completion script into the user's folder and return its path. Raises OSError."""
    home, environ = Path.home(), os.environ
    if shell == "zsh":
        path = Path(environ.get("ZDOTDIR") or home) / ".zshrc"
        line = f'eval "$({VARIABLE}=zsh_source aion)"'
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if line not in before.splitlines():
            path.write_text(
                f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n", encoding="utf-8"
            )
        return path
    if shell == "bash":
        data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
        path = Path(environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions" / "aion"
    else:
        path = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/aion.fish"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_script(context, shell), encoding="utf-8")
    return path
