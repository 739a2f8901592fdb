"""Progress output of a long command, with one line for each step. On a terminal the line is updated in place."""

import asyncio
import shutil
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from aion_tools import terminal

T = TypeVar("T")

_CLEAR = "\r\033[K"
INDENT = " " * 9


class ShownStep:
    """A running step of a command. Set `result` to the text of its final line."""

    def __init__(self, name: str, *, live: bool) -> None:
        self.name, self.result, self._live = name, "", live

    def print(self, line: str) -> None:
        """Print a line of the step's output, indented, above the progress line."""
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
            # Cut the line at the terminal's width, since `clear` cannot remove a wrapped line.
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{'…':8} {self.name}{text and f': {text}'}"[:width], nl=False)

    def clear(self) -> None:
        """Remove the line printed by `draw`."""
        if self._live:
            # Pass `color=True`, because click would otherwise remove this control sequence together with the colours.
            click.echo(_CLEAR, nl=False, color=True, file=terminal.beneath(sys.stdout))


@contextmanager
def step(name: str) -> Iterator[ShownStep]:
    """Print a step's progress while the block runs, and its result (ok, or FAILED if the block raises) at the end."""
    running = ShownStep(name, live=sys.stdout.isatty())
    running.draw()
    try:
        yield running
    except BaseException as error:
        running.clear()
        # Print no FAILED if the user has answered no or pressed Ctrl-C.
        if not isinstance(error, (click.Abort, click.exceptions.Exit, KeyboardInterrupt)):
            terminal.line(("FAILED  ", {"fg": "red"}), f" {name}")
        raise
    running.clear()
    terminal.line(("ok      ", {"fg": "green"}), f" {name}{running.result and f': {running.result}'}")


NOTICE_SECONDS = 1.0
"""Seconds after which the progress of a step is shown."""


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner with the text on standard error while the block runs, from its first second on.

    Without a terminal, nothing is shown. The block must not print.
    """
    if not sys.stderr.isatty():
        yield
        return
    ended, shown = threading.Event(), threading.Thread(target=lambda: _spin(text, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


def _spin(text: str, ended: threading.Event) -> None:
    if ended.wait(NOTICE_SECONDS):
        return
    from rich.live import Live
    from rich.spinner import Spinner

    # Do not let rich redirect stdout and stderr, because it would send the program's other output through this console.
    console, spinner = terminal.console(stderr=True), Spinner("dots", f"{text} …")
    with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        ended.wait()


def result_of(work: Coroutine[Any, Any, T], text: str) -> T:
    """Run the coroutine and return its result. Show its progress as `waiting` does."""
    with waiting(text):
        return asyncio.run(work)
