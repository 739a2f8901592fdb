"""Output of an agent's answer: its text in the terminal, and its files in a folder."""

import json
import os
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_tools.cli.chat.content import Answer
from aion_tools.terminal import beneath

if TYPE_CHECKING:
    from a2a.types import Part
    from markdown_it.token import Token
    from rich.markdown import Markdown


def saved_files(answer: Answer, folder: Path) -> list[Path]:
    """Write the files of the answer into the folder, and return their paths. No existing file is overwritten.

    Files without content (URLs only) are left out. Raises click.ClickException if a file cannot be written.
    """
    try:
        return list(_saved_files(answer, folder))
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be written: {error.strerror}.") from error


def _saved_files(answer: Answer, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for part in answer.parts:
        if part.WhichOneof("content") not in ("raw", "text"):
            continue
        # Use only the last part of the agent's file name, so that no file is written outside of the folder. Replace
        # control characters, because the name is printed, and a file name cannot contain NUL.
        filename = "".join(each if each.isprintable() else "_" for each in part.filename)
        name = Path(Path(filename.replace("\\", "/")).name.strip(". ") or "file")
        # Shorten the name, because a file system limits it to 255 bytes, and a number may be added.
        stem, suffix = (
            text.encode()[:most].decode(errors="ignore") for text, most in ((name.stem, 200), (name.suffix, 40))
        )
        path, number = folder / f"{stem}{suffix}", 1
        while (descriptor := _created(path)) is None:
            path, number = folder / f"{stem}-{number}{suffix}", number + 1
        with os.fdopen(descriptor, "wb") as file:
            file.write(part.raw or part.text.encode())
        yield path


def _created(path: Path) -> int | None:
    """Create the file and return its descriptor; None if there is anything at the path, also a link to nothing."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except FileExistsError:
        return None


def markdown_of(text: str) -> "Markdown":
    """Return an agent's text as Markdown for the terminal. HTML is not interpreted, and a link shows its target."""
    from rich.markdown import Markdown

    shown = Markdown("", hyperlinks=False)
    shown.markup, shown.parsed = text, _parsed(text)
    return shown


def blocks_of(text: str) -> list[str]:
    """Split Markdown before each of its outermost blocks: paragraphs, lists, tables and the like. Nothing is left out."""
    starts = sorted({each.map[0] for each in _parsed(text) if each.map and not each.level})
    lines = [0, *(each.end() for each in re.finditer(r"\r\n?|\n", text)), len(text)]
    return [text[start:end] for start, end in pairwise([0, *(lines[each] for each in starts[1:]), len(text)])]


def _parsed(text: str) -> "list[Token]":
    from markdown_it import MarkdownIt

    parser = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])
    return parser.parse(text)


class PlainPrinter:
    """Printer of an answer while it is received. A text that does not continue the printed text is printed below it."""

    def __init__(self, indent: str = "") -> None:
        self._printed, self._indent = "", indent

    def __call__(self, answer: Answer) -> None:
        """Print the text that the answer has got since the last call."""
        shown = answer.shown
        if shown.startswith(self._printed):
            self._print(shown[len(self._printed) :])
        elif shown.strip() not in ("", self._printed.strip()):
            self._print(f"\n{shown}")
        self._printed = shown or self._printed
        if answer.is_over and self._printed:
            click.echo()
            self._printed = ""

    def _print(self, text: str) -> None:
        start = self._indent if text and not self._printed else ""
        # A file or another program gets the text unchanged.
        to = sys.stdout if sys.stdout.isatty() else beneath(sys.stdout)
        click.echo(start + text.replace("\n", f"\n{self._indent}"), nl=False, file=to)


def described(part: "Part", hint: str = "/save FOLDER", *, is_question: bool = False) -> str:
    """Return a line that describes a file part, or the JSON of a data part. `hint` is the command that saves a file.

    The JSON of a question is shown without the schema of its answer; "" if nothing else is in it.
    """
    from aion_core.protocol.interrupts import without_schema
    from aion_core.protocol.message_json import to_json

    name = ", ".join(filter(None, (part.filename or "file", part.media_type)))
    match part.WhichOneof("content"):
        case "data":
            data = to_json(part)["data"]
            shown = without_schema(data) if is_question else data
            return json.dumps(shown, indent=2, ensure_ascii=False) if shown or shown == data else ""
        case "url":
            return f"[{name}: {part.url}]"
        case _:
            return f"[{name}, {len(part.raw or part.text.encode())} bytes; {hint}]"
