"""Texts that the clients' users see in each cell, by `expected.toml`: the ideal one, or another one with the reason."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.runtime.clients.cells import CELLS, Cell
from tests.runtime.clients.clients import CLIENTS, Client
from tests.runtime.clients.served import FORMS

FILE = Path(__file__).with_name("expected.toml")
UNEXPLAINED = "?"
"""Reason of a cell that nobody has judged yet."""

Texts = Mapping[str, str | None]
"""Texts that the users of one client see, by the name of the cell; None where the client has no such call."""

_HEAD = """\
# Cells in which a client's user sees something else than the ideal text of cells.py. Every other cell is ideal.
# `python -m tests.runtime.clients.table --write` writes the texts, and keeps the reasons of those that have not changed.
# The reason of each cell is one of [reasons], which you write by hand: whose fault it is, and where the client's code has it.
"""


@dataclass
class Expected:
    """Cells that are not ideal, by form and client and cell: the text and the name of its reason; and the reasons."""

    reasons: dict[str, str] = field(default_factory=dict)
    cells: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> "Expected":
        data = tomllib.loads(FILE.read_text(encoding="utf-8"))
        cells = {
            (form, client, cell): (entry["shows"], entry["reason"])
            for form in FORMS
            for client, entries in data.get(form, {}).items()
            for cell, entry in entries.items()
        }
        return cls(data["reasons"], cells)

    def texts(self, form: str, client: Client, cells: Iterable[Cell] = CELLS) -> dict[str, str | None]:
        """Return what the client's user should see, with the ideal in place of the texts that fit it."""
        texts: dict[str, str | None] = {}
        for cell in cells:
            shows, _ = self.cells.get((form, client.name, cell.name), (str(cell.ideal), ""))
            texts[cell.name] = None if cell.call in client.lacks else shows
        return texts

    def rewritten(self, form: str, client: Client, seen: Texts) -> None:
        """Take the texts of a run in place of the client's texts, with the reasons of those that have not changed."""
        for cell in CELLS:
            key, text = (form, client.name, cell.name), judged(seen)[cell.name]
            shows, reason = self.cells.pop(key, ("", UNEXPLAINED))
            if text is not None and text != str(cell.ideal):
                self.cells[key] = (text, reason if text == shows else UNEXPLAINED)

    def write(self) -> None:
        lines = [_HEAD, "[reasons]", *(f"{name} = {_quoted(text)}" for name, text in sorted(self.reasons.items()))]
        for form in FORMS:
            for client in CLIENTS:
                named = [(cell.name, (form, client.name, cell.name)) for cell in CELLS]
                entries = [(name, *self.cells[key]) for name, key in named if key in self.cells]
                lines += ["", f"[{form}.{_quoted(client.name)}]"] if entries else []
                lines += [
                    f"{_quoted(name)} = {{ shows = {_quoted(shows)}, reason = {_quoted(reason)} }}"
                    for name, shows, reason in entries
                ]
        FILE.write_text("\n".join([*lines, ""]), encoding="utf-8")


def judged(seen: Texts) -> dict[str, str | None]:
    """Return the texts with the ideal in place of those that fit it."""
    ideals = {cell.name: cell.ideal for cell in CELLS}
    return {
        name: str(ideals[name]) if text is not None and ideals[name].fits(text) else text for name, text in seen.items()
    }


def _quoted(text: str) -> str:
    """Return the text as a TOML string: JSON's escapes are TOML's too."""
    return json.dumps(text, ensure_ascii=False)
