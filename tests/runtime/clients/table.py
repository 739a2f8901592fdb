"""Print the matrix of clients as Markdown: `python -m tests.runtime.clients.table [--stored | --write] [client ...]`.

Without a flag, it runs the clients and prints what their users see. `--stored` prints expected.toml instead, and
`--write` also rewrites it from the run.
"""

import argparse
from collections.abc import Mapping, Sequence

from tests.runtime.clients.cells import CELLS
from tests.runtime.clients.clients import CLIENTS, Client
from tests.runtime.clients.expected import UNEXPLAINED, Expected, Texts, judged
from tests.runtime.clients.runs import runs
from tests.runtime.clients.served import FORMS

IDEAL, NO_CALL = "✓", "–"
WIDTH = 70
"""Characters of a text that a cell of the table shows."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.clients.table", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="client")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--stored", action="store_true")
    which.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    clients = [client for client in CLIENTS if not options.clients or client.name in options.clients]
    expected = Expected.read()
    seen: Mapping[tuple[str, str], Texts]
    if options.stored:
        seen = {(form, client.name): expected.texts(form, client) for form in FORMS for client in clients}
    else:
        seen = run(clients)
    if options.write:
        for form in FORMS:
            for client in clients:
                expected.rewritten(form, client, seen[form, client.name])
        expected.write()
    print(page(seen, clients, expected))


def run(clients: Sequence[Client]) -> dict[tuple[str, str], Texts]:
    """Return what the clients' users see, by form and client."""
    asked = [(form, client, CELLS) for client in clients for form in FORMS]
    with runs(asked) as texts:
        return {(form, client.name): texts(form, client, CELLS) for form, client, _ in asked}


def page(seen: Mapping[tuple[str, str], Texts], clients: Sequence[Client], expected: Expected) -> str:
    """Return a table for each form, and below it the reasons of the cells that are not ideal."""
    return "\n".join(line for form in FORMS for line in _section(form, seen, clients, expected))


def _section(
    form: str, seen: Mapping[tuple[str, str], Texts], clients: Sequence[Client], expected: Expected
) -> list[str]:
    texts = {client.name: judged(seen[form, client.name]) for client in clients}
    notes: list[str] = []
    rows = []
    for cell in CELLS:
        row = [cell.name, f"`{cell.ideal}`"]
        for client in clients:
            text = texts[client.name][cell.name]
            if text is None:
                row.append(NO_CALL)
            elif text == str(cell.ideal):
                row.append(IDEAL)
            else:
                shows, reason = expected.cells.get((form, client.name, cell.name), ("", UNEXPLAINED))
                reason = reason if text == shows else UNEXPLAINED
                notes += [reason] if reason not in notes else []
                row.append(f"`{_short(text)}` [{notes.index(reason) + 1}]")
        rows.append(row)
    ideal = {client: sum(row[2 + place] == IDEAL for row in rows) for place, client in enumerate(texts)}
    called = {client: sum(row[2 + place] != NO_CALL for row in rows) for place, client in enumerate(texts)}
    rows.append(["ideal", "", *(f"{ideal[client]} of {called[client]}" for client in texts)])
    return [
        f"## `answer: {form}`",
        "",
        f"| cell | ideal | {' | '.join(texts)} |",
        f"|{' --- |' * (2 + len(texts))}",
        *(f"| {' | '.join(value.replace('|', chr(92) + '|') for value in row)} |" for row in rows),
        "",
        *(
            f"{place}. {expected.reasons.get(reason, 'Nobody has judged this yet.')}"
            for place, reason in enumerate(notes, 1)
        ),
        "",
    ]


def _short(text: str) -> str:
    line = text.replace("`", "'").replace("\n", "⏎")
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}…"


if __name__ == "__main__":
    main()
