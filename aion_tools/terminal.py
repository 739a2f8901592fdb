"""One filter for everything that the commands write to a terminal: foreign text cannot control it or reorder its lines.

`cleaned_output` puts the filter into standard output and standard error, so it holds for click, rich, logging and
tracebacks alike, and no caller has to remember it. The filter cannot tell our own escape sequences from foreign ones.
So whoever styles text cleans the text first and writes beneath the filter: `line` for a styled line, `console` for rich.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

if TYPE_CHECKING:
    from rich.console import Console

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 without tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # marks, embeddings, overrides and isolates of a direction
    "\u2028\u2029"  # separators of lines and paragraphs
    "\ud800-\udfff"  # half a surrogate pair, which no encoding has
    "]"
)
"""Characters that control the terminal or reorder its text."""

SHORT_ID = 8
"""Number of characters of a short id."""

_GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Piece = str | tuple[str, dict[str, Any]]
"""A text, or a text with its style as click knows it."""


def clean(text: str) -> str:
    """Return the text with U+FFFD for each unsafe character. Line feeds and tabs stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def json_text(document: Any, *, indent: int | None = None) -> str:
    """Return the document as JSON, with an escape for each unsafe character, so that nothing is lost by the filter."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short_id(text: str) -> str:
    """Return the end of a UUID, which names the task in commands. Its beginning is the time. Other texts stay whole."""
    return text[-SHORT_ID:] if _GENERATED.fullmatch(text) else text


class CleanStream:
    """Text stream that cleans what is written to it. All else is that of the stream beneath."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write the cleaned text."""
        return self.beneath.write(clean(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the cleaned lines."""
        for each in lines:
            self.write(each)

    @property
    def buffer(self) -> "_CleanBuffer":
        """The stream for bytes. click uses it for shell completion, and for text if the encoding is ASCII."""
        return _CleanBuffer(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


class _CleanBuffer:
    def __init__(self, stream: CleanStream) -> None:
        self._stream = stream

    def write(self, content: bytes) -> int:
        self._stream.write(bytes(content).decode(errors="replace"))
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.beneath.buffer, name)


def beneath(stream: TextIO) -> TextIO:
    """Return the stream beneath the filter."""
    return stream.beneath if isinstance(stream, CleanStream) else stream


@contextmanager
def cleaned_output() -> Iterator[None]:
    """Within the block, clean standard output and standard error."""
    out, err = sys.stdout, sys.stderr
    # A process may be started without them.
    sys.stdout, sys.stderr = (each and cast("TextIO", CleanStream(each)) for each in (out, err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def line(*pieces: Piece, nl: bool = True) -> None:
    """Write a line whose pieces may have a style."""
    click.echo("".join(map(_styled, pieces)), nl=nl, file=beneath(sys.stdout))


def _styled(piece: Piece) -> str:
    text, style = (piece, {}) if isinstance(piece, str) else piece
    return click.style(clean(text), **style) if any(style.values()) else clean(text)


def console(*, stderr: bool = False) -> "Console":
    """Return a console of rich that shows texts literally: without markup, emoji codes and highlights."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                # A control is rich's own, such as the movement to the first line of what is shown live.
                yield Segment(text if control else clean(text), style, control)

    file = beneath(sys.stderr if stderr else sys.stdout)
    # COLUMNS and LINES may be those of another window. What is drawn again needs the true size of this one.
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    is_terminal = file.isatty()
    return CleanConsole(
        file=file, markup=False, emoji=False, highlight=False, _environ=environ if is_terminal else None
    )
