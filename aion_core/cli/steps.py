"""Steps of a long command, a line each: what is under way on a terminal, and how each step ended."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_CLEAR = "\r\033[K"
INDENT = " " * 9


class Step:
    """A step that is under way; `said` is what its line says once it is done."""

    def __init__(self, name: str, *, live: bool) -> None:
        self.name, self.said, self._live = name, "", live

    def tell(self, line: str) -> None:
        """Print a line below the steps that are done."""
        self.clear()
        click.echo(f"{INDENT}{line}")
        self.draw()

    def progress(self, said: str) -> None:
        """Say how far it is, on a terminal alone."""
        self.clear()
        self.draw(said)

    def draw(self, said: str = "") -> None:
        """Show that it is under way."""
        if self._live:
            # A line that wraps could not be taken away again.
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{'…':8} {self.name}{said and f': {said}'}"[:width], nl=False)

    def clear(self) -> None:
        """Take away what `draw` has shown."""
        if self._live:
            click.echo(_CLEAR, nl=False)


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Show a step until the block ends, as ok, or as FAILED if the block raises."""
    under_way = Step(name, live=sys.stdout.isatty())
    under_way.draw()
    try:
        yield under_way
    except BaseException as error:
        under_way.clear()
        # Answering no is not a failure.
        if not isinstance(error, (click.Abort, click.exceptions.Exit, KeyboardInterrupt)):
            click.echo(f"{_styled('FAILED', 'red')} {name}")
        raise
    under_way.clear()
    click.echo(f"{_styled('ok', 'green')} {name}{under_way.said and f': {under_way.said}'}")


def _styled(word: str, colour: str) -> str:
    padded = f"{word:8}"
    return padded if os.environ.get("NO_COLOR") else click.style(padded, fg=colour)
