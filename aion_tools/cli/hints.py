"""Hints for a wrong command line: the command to which a misplaced subcommand or option belongs."""

from collections.abc import Iterator

import click
from click.exceptions import NoSuchCommand, NoSuchOption


class HintingGroup(click.Group):
    """Group of commands. Its error about an unknown subcommand or option names the commands that have it.

    If no command has it, click suggests a similar name of this group.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. Raises NoSuchCommand with the paths of commands of this name elsewhere."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            name = str(args[0])
            places = [path for path, command in _commands(ctx.find_root()) if command.name == name]
            if name == "help":
                places = [f"{ctx.command_path} --help"]
            if not places:
                raise
            given = f"{ctx.command_path} {name}"
            raise NoSuchCommand(name, f"No such command '{given}'. There is {_listed(places)}.", ctx=ctx) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of this group. Raises NoSuchOption, with a hint if the option belongs to the subcommand."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            command = self._named_in(ctx, given)
            if command is None or not any(error.option_name in each.opts for each in command.params):
                raise
            path = f"{ctx.command_path} {command.name}"
            message = f"No such option '{error.option_name}' here. It belongs behind the command: `{path} {error.option_name} …`."
            raise NoSuchOption(error.option_name, message, ctx=ctx) from error

    def _named_in(self, ctx: click.Context, args: list[str]) -> click.Command | None:
        """Return the first subcommand among the arguments, or None if they contain no subcommand."""
        found = (self.get_command(ctx, each) for each in args if not each.startswith("-"))
        return next((each for each in found if each is not None), None)


def _commands(root: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands below the root, each with its path, such as `aion tasks list`."""

    def below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name, each in command.commands.items():
                yield f"{path} {name}", each
                yield from below(f"{path} {name}", each)

    yield from below(root.command_path, root.command)


def _listed(paths: list[str]) -> str:
    *others, last = [f"`{path}`" for path in paths]
    return f"{', '.join(others)} and {last}" if others else last
