"""Documents that commands print: as JSON for programs, or as aligned text for people."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from aion_core.log import one_line
from aion_tools.terminal import short_id

Document = Mapping[str, Any]
"""Values by their names in JSON: texts, numbers, times, lists, and documents."""

LIMIT = 10_000
"""Largest number of rows to print."""

WHOLE = ("context",)
"""Columns whose ids stay whole on a terminal, because no command takes a part of them."""

limit = click.option(
    "--limit", type=click.IntRange(1, LIMIT), default=100, show_default=True, help="Maximum number to print."
)


def print_rows(
    rows: Sequence[Document], columns: Iterable[str], what: str, *, as_json: bool = False, number: int = 0
) -> None:
    """Print a table with these columns of the rows, or JSON with all of their fields. On a terminal, UUIDs are short.

    `what` names the things in sentences on stderr: that there are none, or that there is a larger `number` of them.
    """
    if as_json or rows:
        click.echo(_json(rows) if as_json else "\n".join(_table(rows, [*columns])))
    else:
        click.echo(f"No {what}.", err=True)
    if number > len(rows):
        click.echo(f"{len(rows)} of {number} {what} printed; --limit prints more.", err=True)


def print_whole(documents: Sequence[Document], *, as_json: bool = False) -> None:
    """Print all fields of the documents."""
    click.echo(_json(documents) if as_json else "\n\n".join("\n".join(_facts(each)) for each in documents))


def time_text(at: datetime) -> str:
    """Return a time as text for people, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _json(documents: Sequence[Document]) -> str:
    return json.dumps(documents, indent=2, default=datetime.isoformat)


def _facts(document: Document) -> Iterator[str]:
    """Yield a line for each value, then a part for each document or list of documents in it."""
    parts = {name: lines for name, value in document.items() if (lines := _part(value))}
    width = max(len(_words(name)) for name in document) + 2
    for name, value in document.items():
        if name not in parts:
            yield f"{_words(name):{width}}{_text(value)}"
    for name, lines in parts.items():
        yield from ("", f"{_words(name)}:", *(f"  {line}" for line in lines))


def _part(value: Any) -> list[str]:
    """Return the lines of a document or a list of documents; empty for another value."""
    match value:
        case dict():
            return [*_facts(value)]
        case [dict(), *_]:
            return _table(value, [*dict.fromkeys(column for row in value for column in row)])
    return []


def _table(rows: Iterable[Document], columns: Sequence[str]) -> list[str]:
    is_terminal = sys.stdout.isatty()

    def cell(name: str, value: Any) -> str:
        return short_id(_text(value)) if is_terminal and name not in WHOLE else _text(value)

    cells = [
        [_words(name).upper() for name in columns],
        *([cell(name, row.get(name)) for name in columns] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def _words(name: str) -> str:
    return re.sub("(?=[A-Z])", " ", name).lower()


def _text(value: Any) -> str:
    match value:
        case None | "" | [] | ():
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case list() | tuple():
            return ", ".join(map(_text, value))
        case dict():
            return json.dumps(value)
    return one_line(str(value))
