"""Clients that people use, against every kind of answer: what their users see, compared with `expected.toml`.

`python -m tests.runtime.clients.table` prints the matrix; with `--write` it takes the texts of a run as expected.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.runtime.clients.cells import CELLS, Cell
from tests.runtime.clients.clients import CLIENTS, Client
from tests.runtime.clients.expected import Expected, Texts, judged
from tests.runtime.clients.runs import runs
from tests.runtime.clients.served import FORMS
from tests.support.environments import NodeMissing

QUICK, SLOW = ([cell for cell in CELLS if cell.slow is slow] for slow in (False, True))

each_run = pytest.mark.parametrize(
    ("client", "cells"),
    [
        *(pytest.param(each, CELLS, id=each.name, marks=pytest.mark.deep) for each in CLIENTS if each.deep),
        *(pytest.param(each, QUICK, id=each.name) for each in CLIENTS if not each.deep),
        *(
            pytest.param(each, SLOW, id=f"{each.name}, slow", marks=pytest.mark.deep)
            for each in CLIENTS
            if not each.deep
        ),
    ],
)


@pytest.fixture(scope="module")
def texts(request: pytest.FixtureRequest) -> Iterator[Callable[[str, Client, Sequence[Cell]], Texts]]:
    """Start the runs of all selected tests at once."""
    selected: list[Any] = [
        (given["form"], given["client"], given["cells"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and "cells" in item.fixturenames
        for given in [item.callspec.params]
    ]
    with runs(selected) as texts:
        yield texts


@pytest.mark.parametrize("form", FORMS)
@each_run
def test_client_shows_expected_texts(
    texts: Callable[[str, Client, Sequence[Cell]], Texts], client: Client, form: str, cells: list[Cell]
) -> None:
    try:
        seen = texts(form, client, cells)
    except NodeMissing as missing:
        pytest.skip(f"NOT PROVEN: {client.name}. {missing}")
    assert judged(seen) == Expected.read().texts(form, client, cells)


def test_expected_texts_have_reasons() -> None:
    """Each cell that is not ideal has a reason, and each reason a cell."""
    expected = Expected.read()
    assert {reason for _, reason in expected.cells.values()} == set(expected.reasons)


def test_expected_texts_belong_to_cells() -> None:
    """No line of `expected.toml` names a client or cell that is gone, or repeats the ideal."""
    ideals = {cell.name: cell.ideal for cell in CELLS}
    clients = {client.name for client in CLIENTS}
    wrong = [
        key
        for key, (shows, _) in Expected.read().cells.items()
        if key[1] not in clients or key[2] not in ideals or ideals[key[2]].fits(shows)
    ]
    assert wrong == []
