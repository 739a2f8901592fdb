"""Search for agents in Python files. It parses the files but imports no code."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from aion_core.loading.discovery.statements import assigned_values, has_decorator, imports_of, last_name, top_level
from aion_core.loading.frameworks import agent_classes, apps_of, constructors, scanned_imports
from aion_core.loading.importing.syntax import parsed

_NAMES = frozenset({"graph", "agent", "root_agent"})
"""Usual names of the agent object in projects of the frameworks."""
_SKIPPED_FILES = ("test_", "conftest", "setup", "noxfile", "_test")
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "tests", "test", "site-packages", "venv", "build", "dist", "docs"}
)
_MAX_DEPTH = 4
_MAX_FILES = 400


class AgentFile(Struct, frozen=True):
    """Python file that defines an agent at its top level."""

    file: Path
    names: tuple[str, ...]
    """Names of the agents in the order of the file. The builder of an agent may be among them."""
    imports: frozenset[str]
    """Names that the file imports, and the last segments of the modules that it imports."""


def agent_file(file: Path) -> AgentFile | None:
    """Return the agents of a Python file; None if the file has no agent or cannot be parsed."""
    tree = parsed(file)
    modules, names = imports_of(tree)
    if not any(f"{module}.".startswith(scanned_imports()) for module in modules):
        return None
    found = tuple(_agent_names(tree, names, {module.partition(".")[0] for module in modules}))
    last = {module.rpartition(".")[2] for module in modules}
    return AgentFile(file, found, frozenset(last | set(names))) if found else None


def agent_files_below(folder: Path) -> list[AgentFile]:
    """Return the Python files with an agent in the folder, or if there are none, in its subfolders.

    If one of these files imports another, only the importing file is returned. Tests, hidden folders and virtual
    environments are skipped.
    """
    for files in (sorted(folder.glob("*.py")), _below(folder)):
        found = [each for file in files if _may_have_agents(file) and (each := agent_file(file)) is not None]
        imported = {each.file for each in found for other in found if other is not each and _imports_file(other, each)}
        # Omit files that another found file imports. If all files import each other, return all of them.
        if parts := [each for each in found if each.file not in imported] or found:
            return parts
    return []


def _may_have_agents(file: Path) -> bool:
    return not file.name.startswith((".", *_SKIPPED_FILES)) and not file.stem.endswith(_SKIPPED_FILES)


def _below(folder: Path, depth: int = _MAX_DEPTH) -> list[Path]:
    found: list[Path] = []
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        hidden = inner.name.startswith(".") or inner.name in _SKIPPED_FOLDERS or (inner / "pyvenv.cfg").is_file()
        if not hidden and depth and len(found) < _MAX_FILES:
            found += [*sorted(inner.glob("*.py")), *_below(inner, depth - 1)]
    return found[:_MAX_FILES]


def _imports_file(importer: AgentFile, imported: AgentFile) -> bool:
    stem = imported.file.parent.name if imported.file.stem == "__init__" else imported.file.stem
    return stem in importer.imports


def _agent_names(tree: ast.Module, imported: Mapping[str, str], modules: set[str]) -> Iterator[str]:
    classes: set[str] = set()
    abstract: set[str] = set()
    seen: set[str] = set()
    for node in top_level(tree.body):
        if isinstance(node, ast.ClassDef):
            if any(last_name(base, imported) in agent_classes() | classes for base in node.bases):
                classes.add(node.name)
                if any(has_decorator(inner, "abstractmethod", imported) for inner in node.body):
                    abstract.add(node.name)
        elif has_decorator(node, "entrypoint", imported):  # of LangGraph
            seen.add(node.name)
            yield node.name
    for name, value in assigned_values(top_level(tree.body)):
        if name not in seen and not name.startswith("_") and _is_agent(name, value, imported, classes, modules):
            seen.add(name)
            yield name
    if not seen:
        # Return the classes if there are no instances, because an executor's file may define only the class.
        yield from sorted(classes - abstract)


def _is_agent(name: str, value: ast.expr, imported: Mapping[str, str], classes: set[str], modules: set[str]) -> bool:
    if isinstance(value, ast.Await):
        value = value.value
    if not isinstance(value, ast.Call):
        return False
    made_by = value.func
    if last_name(made_by, imported) in constructors() | classes | apps_of(imported.values()):
        return True
    if isinstance(made_by, ast.Attribute):
        of_module = isinstance(made_by.value, ast.Name) and made_by.value.id in modules
        if made_by.attr == "compile" and not of_module:
            return True
        # The call may be part of a chain, such as `StateGraph(State).add_node(…)`.
        return _is_agent(name, made_by.value, imported, classes, modules)
    return name in _NAMES
