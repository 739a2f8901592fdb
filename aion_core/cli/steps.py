"""Progress of a long command: one line for each step, updated on a terminal."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_CLEAR = "\r\033[K"
INDENT = " " * 9


class Step:
    """A running step; `result` is the text of its line at the end."""

    def __init__(self, name: str, *, live: bool) -> None:
        self.name, self.result, self._live = name, "", live

    def print(self, line: str) -> None:
        """Print a line below the finished steps."""
        self.clear()
        click.echo(f"{INDENT}{line}")
        self.draw()

    def progress(self, text: str) -> None:
        """Show the progress, on a terminal only."""
        self.clear()
        self.draw(text)

    def draw(self, text: str = "") -> None:
        """Show the running step."""
        if self._live:
            # A wrapped line could not be removed.
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{'…':8} {self.name}{text and f': {text}'}"[:width], nl=False)

    def clear(self) -> None:
        """Remove the line of `draw`."""
        if self._live:
            click.echo(_CLEAR, nl=False)


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Show a step until the block ends: as ok, or as FAILED if the block raises."""
    running = Step(name, live=sys.stdout.isatty())
    running.draw()
    try:
        yield running
    except BaseException as error:
        running.clear()
        # A negative answer is not a failure.
        if not isinstance(error, (click.Abort, click.exceptions.Exit, KeyboardInterrupt)):
            click.echo(f"{_styled('FAILED', 'red')} {name}")
        raise
    running.clear()
    click.echo(f"{_styled('ok', 'green')} {name}{running.result and f': {running.result}'}")


def _styled(text: str, colour: str) -> str:
    padded = f"{text:8}"
    return padded if os.environ.get("NO_COLOR") else click.style(padded, fg=colour)
