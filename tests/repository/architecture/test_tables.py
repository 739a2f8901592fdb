"""Imports of the table adapters: they import the port and the vendor's library, but no rules of the engine."""

import ast
import sys
from pathlib import Path

from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
ADAPTERS = ("aws", "local")
RULES = ("aion_core.engine", "aion_core.push", "aion_core.state")
PORTS = ("aion_core.engine.queues",)
"""Ports of the engine that storage adapters implement."""


def imported(module: str) -> set[str]:
    """Return the names of all modules that the module imports, also inside functions."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            are_modules = (ROOT / node.module.replace(".", "/")).is_dir()
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if are_modules else {node.module}
    return names


@each_row(
    ("table", "vendors"),
    [
        ("aion_core.aws.dynamodb_table", {"boto3", "botocore"}),
        ("aion_core.local.memory.table", set()),
        ("aion_core.local.sqlite.table", {"msgspec", "sqlite3"}),
        ("aion_core.table.semantics.writes", {"msgspec"}),
    ],
)
def test_database_table_module_imports_only_its_port_and_database_client(table: str, vendors: set[str]) -> None:
    """Check the table's imports, and those of the modules that it imports from its own package."""
    package = table.rpartition(".")[0]
    look, seen = [table], set[str]()
    used = set[str]()
    while look:
        module = look.pop()
        seen.add(module)
        for name in imported(module):
            if name.startswith(f"{package}."):
                look += {name} - seen
            elif name.startswith("aion_core."):
                assert f"{name}.".startswith(("aion_core.errors.", "aion_core.clock.", "aion_core.table.")), (
                    f"{module}: {name}"
                )
            elif (vendor := name.partition(".")[0]) not in sys.stdlib_module_names - {"sqlite3"}:
                used.add(vendor)
    assert used == vendors


def test_storage_adapters_do_not_import_task_logic_or_stores() -> None:
    for package in ADAPTERS:
        for file in sorted((ROOT / "aion_core" / package).rglob("*.py")):
            name = str(file.relative_to(ROOT / "aion_core"))
            module = f"aion_core.{name.removesuffix('.py').replace('/', '.')}"
            rules = tuple(f"{rule}." for rule in RULES)
            found = {each for each in imported(module) - {*PORTS} if f"{each}.".startswith(rules)}
            assert not found, f"{name}: {found}"
