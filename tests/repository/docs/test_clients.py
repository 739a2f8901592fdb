"""docs/clients.md: its table of operations, and the languages and versions of each. tests/tools/e2e runs its blocks."""

import re

from aion_core.web.operations import OPERATIONS
from aion_core.web.operations.operation import HttpRoute, Operation
from tests.support.rows import each_row
from tests.support.server import ROOT

GUIDE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
SERVED = [operation for operation in OPERATIONS if operation.routes]
"""Operations of A2A; the operations without a route belong to Aion's extensions."""
ONLY_OVER_HTTP = [operation.name for operation in SERVED if operation.v03 and not operation.v03.method]


def route(routes: tuple[HttpRoute, ...]) -> str:
    return f"`{routes[0].method} {routes[0].path.replace(':text', '')}`"


@each_row("operation", SERVED)
def test_clients_guide_lists_method_and_paths_of_each_operation(operation: Operation) -> None:
    row = next(iter(re.findall(rf"^\| .+ \| \[`{operation.name}`\].*$", GUIDE, re.MULTILINE)), "")
    assert row, f"Add a row for {operation.name} to the table in docs/clients.md."
    assert operation.v03 is not None
    method = f"`{operation.v03.method}`" if operation.v03.method else ""
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == [
        f"[`{operation.name}`](#{operation.name.lower()})",
        route(operation.routes),
        method,
        route(operation.v03.routes),
    ]


@each_row("operation", SERVED)
def test_clients_guide_shows_operation_in_each_language(operation: Operation) -> None:
    section = GUIDE.partition(f"\n## {operation.name}\n")[2].partition("\n## ")[0]
    assert section, f"Add the section {operation.name} to docs/clients.md."
    labels = set(re.findall(r"^((?:curl|Python|TypeScript)(?:, .+)?):$", section, re.MULTILINE))
    only = ", 1.0" if operation.name in ONLY_OVER_HTTP else ""
    assert labels == {"curl, 1.0", "curl, 0.3", f"Python{only}", f"TypeScript{only}"}
