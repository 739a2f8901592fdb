"""Tables of promises in the guides: each promise names the code that keeps it and the tests that prove it."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.support.server import ROOT

DOCS = ROOT / "docs"
PAGES = ("durability.md", "push.md", "security.md")
HEADER = "| promise | kept by | proven by |\n| --- | --- | --- |\n"
LINK = re.compile(r"\[`([^`]+)`\]\(([^)]+)\)")
GUARANTEES = re.compile(r"^## [^\n]*[Gg]uarantees.*?(?=^## )", re.MULTILINE | re.DOTALL)


class _TagIgnoringLoader(yaml.SafeLoader):
    """YAML loader for a template's resources that ignores its tags."""


_TagIgnoringLoader.add_multi_constructor("!", lambda loader, suffix, node: None)


def rows(page: str) -> list[list[str]]:
    """Return the cells of each row of the page's tables of promises: promise, code, tests."""
    tables = (DOCS / page).read_text(encoding="utf-8").split(HEADER)[1:]
    lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def faults(cells: list[str]) -> Iterator[str]:
    """Yield what is wrong with a row: a missing cell, or a name that its linked file does not define."""
    if len(cells) != 3 or not cells[0]:
        yield "a row needs a promise, the code that keeps it, and the tests that prove it"
        return
    for column, cell, is_defined in (("kept by", cells[1], keeps), ("proven by", cells[2], proves)):
        links = cell.split("<br>")
        if not cell:
            yield f"the column '{column}' is empty"
        for link in links if cell else ():
            found = LINK.fullmatch(link)
            if found is None:
                yield f"{link} is no link of the form [`name`](file)"
            elif not is_defined(found[1], (DOCS / found[2]).resolve()):
                yield f"{found[2]} does not define {found[1]}"


def keeps(name: str, file: Path) -> bool:
    """Return True if this file defines the function, method or class, or (`file.yaml: Name`) the resource."""
    if file.suffix == ".yaml":
        resource = name.removeprefix(f"{file.relative_to(ROOT)}: ")
        return resource in yaml.load(file.read_text(encoding="utf-8"), _TagIgnoringLoader)["Resources"]  # noqa: S506  # a SafeLoader
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return module.__file__ == str(file) and defines(module, parts[length:])
    return False


def defines(module: ModuleType, path: list[str]) -> bool:
    """Return True if the module itself defines this function or class: an imported name does not count."""
    found: object = module
    for name in path:
        found = getattr(found, name, None)
    found = found.fget if isinstance(found, property) else found
    return callable(found) and getattr(found, "__module__", "") == module.__name__


def proves(name: str, file: Path) -> bool:
    """Return True if this file has the test."""
    if not name.startswith("test_") or not file.is_relative_to(ROOT / "tests") or not file.is_file():
        return False
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in ast.walk(tree)
    )


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_names_existing_code_and_tests(page: str) -> None:
    assert len(rows(page)) >= 10
    assert [f"{cells[0]}: {fault}" for cells in rows(page) for fault in faults(cells)] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_guarantee_has_row_in_table_of_promises(page: str) -> None:
    """A guarantee is the bold beginning of a list item, or the first cell of a row about an event."""
    text = "\n".join(GUARANTEES.findall((DOCS / page).read_text(encoding="utf-8")))
    stated = re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE | re.DOTALL)
    stated += [event for events in text.split("| event | effect |\n|---|---|\n")[1:] for event in re.findall(r"^\| (.+?) \|", events, re.MULTILINE)]  # fmt: skip
    promised = {cells[0] for cells in rows(page)}
    assert [each for each in (" ".join(each.split()).rstrip(".,") for each in stated) if each not in promised] == []
