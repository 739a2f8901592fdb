"""Maps of packages: a docstring that lists the files of its package lists all of them, and nothing else."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(
    file.parent for folder in ("aion_core", "aion_tools") for file in (ROOT / folder).rglob("__init__.py")
)


def listed(docstring: str) -> list[str]:
    """Return the names in the first column of the docstring's rows, without `.py` and `/`."""
    rows = re.findall(r"^ *((?:\w+(?:\.py|/)?, )*\w+(?:\.py|/)?) {2,}\S", docstring, re.MULTILINE)
    return [name.removesuffix("/").removesuffix(".py") for row in rows for name in row.split(", ")]


def contents(package: Path) -> set[str]:
    """Return the names of the package's modules and subpackages."""
    modules = {file.stem for file in package.glob("*.py")} - {"__init__"}
    return modules | {file.parent.name for file in package.glob("*/__init__.py")}


def maps() -> dict[str, list[str]]:
    """Return the listed names of each package with a map; a table of other things names no file of its package."""
    found = {}
    for package in PACKAGES:
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
        if contents(package) & {*listed(docstring)}:
            found[str(package.relative_to(ROOT))] = listed(docstring)
    return found


def test_map_of_package_lists_exactly_its_files() -> None:
    found = maps()
    assert len(found) > 20
    wrong = [package for package, names in found.items() if sorted(names) != sorted(contents(ROOT / package))]
    assert wrong == []
