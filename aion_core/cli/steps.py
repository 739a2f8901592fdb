"""Progress output of a long command, with one line for each step. On a terminal the line is updated in place."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_CLEAR = "\r\033[K"
INDENT = " " * 9


class Step:
    """A running step of a command. Set `result` to the text of its final line."""

    def __init__(self, name: str, *, live: bool) -> None:
        self.name, self.result, self._live = name, "", live

    def print(self, line: str) -> None:
        """Print an indented line of output of the step above its progress line."""
        self.clear()
        click.echo(f"{INDENT}{line}")
        self.draw()

    def progress(self, text: str) -> None:
        """Replace the progress text of the step. Without a terminal, print nothing."""
        self.clear()
        self.draw(text)

    def draw(self, text: str = "") -> None:
        """Print the name of the running step and its progress text, without a line break, on a terminal only."""
        if self._live:
            # Cut the line at the terminal's width, since a wrapped line could not be removed.
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{'…':8} {self.name}{text and f': {text}'}"[:width], nl=False)

    def clear(self) -> None:
        """Remove the line printed by `draw`."""
        if self._live:
            click.echo(_CLEAR, nl=False)


@contextmanager
def step(name: str) -> Iterator[Step]:
    """Print a step's progress while the block runs, and its result (ok, or FAILED if the block raises) at the end."""
    running = Step(name, live=sys.stdout.isatty())
    running.draw()
    try:
        yield running
    except BaseException as error:
        running.clear()
        # A user's negative answer or Ctrl-C is not a failure.
        if not isinstance(error, (click.Abort, click.exceptions.Exit, KeyboardInterrupt)):
            click.echo(f"{_styled('FAILED', 'red')} {name}")
        raise
    running.clear()
    click.echo(f"{_styled('ok', 'green')} {name}{running.result and f': {running.result}'}")


def _styled(text: str, colour: str) -> str:
    padded = f"{text:8}"
    return padded if os.environ.get("NO_COLOR") else click.style(padded, fg=colour)
