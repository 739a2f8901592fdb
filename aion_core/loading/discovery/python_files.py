"""Search for agents in Python files. It parses the files but imports no code."""

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from aion_core.loading.discovery.statements import assigned_values, has_decorator, imports_of, last_name, top_level
from aion_core.loading.frameworks import FRAMEWORKS, agent_classes, apps_of, constructors, scanned_imports
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
    functions: tuple[str, ...] = ()
    """The `names` that are functions, which make the agent."""


def agent_file(file: Path) -> AgentFile | None:
    """Return the agents of a Python file; None if the file has no agent or cannot be parsed."""
    return _agent_file(file, _read(file), frozenset())


class _Source(Struct, frozen=True):
    """A parsed file, with the modules and the names that it imports: see `imports_of`."""

    tree: ast.Module
    modules: Collection[str]
    names: Mapping[str, str]

    def may_have_agents(self, bases: Collection[str]) -> bool:
        """Return True if the file imports a framework, or one of `bases`, the project's own agent classes."""
        return any(f"{module}.".startswith(scanned_imports()) for module in self.modules) or any(
            name in bases for name in self.names.values()
        )


def _read(file: Path) -> _Source:
    tree = parsed(file)
    return _Source(tree, *imports_of(tree))


def _agent_file(file: Path, source: _Source, bases: Collection[str]) -> AgentFile | None:
    """Return the agents of a parsed file. `bases` are the names of the project's own agent classes."""
    if not source.may_have_agents(bases):
        return None
    tree, modules, names = source.tree, source.modules, source.names
    classes = _AgentClasses(tree, names, bases)
    found = tuple(_instance_names(tree, names, classes.own, {module.partition(".")[0] for module in modules}))
    # A function that makes a server has precedence over the class of the executor in the server.
    functions = () if found else tuple(_functions_with_server(tree, names))
    found = found or functions or tuple(classes.whole())
    last = {module.rpartition(".")[2] for module in modules}
    return AgentFile(file, found, frozenset(last | set(names)), functions) if found else None


def agent_files_below(folder: Path) -> list[AgentFile]:
    """Return the Python files with an agent in the folder, or if there are none, in its subfolders.

    If one of these files imports another, only the importing file is returned. Tests, hidden folders and virtual
    environments are skipped.
    """
    for files in (sorted(folder.glob("*.py")), _below(folder)):
        sources = {file: _read(file) for file in files if _may_have_agents(file)}
        bases = _agent_classes_in(sources.values())
        found = [each for file, source in sources.items() if (each := _agent_file(file, source, bases)) is not None]
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


def _agent_classes_in(sources: Collection[_Source]) -> frozenset[str]:
    """Return the names of all agent classes in these files. A class may derive from one in another file."""
    bases: frozenset[str] = frozenset()
    while True:
        found = set(bases)
        for source in sources:
            if source.may_have_agents(bases):
                found |= _AgentClasses(source.tree, source.names, bases).own
        if found == bases:
            return bases
        bases = frozenset(found)


class _AgentClasses:
    """Agent classes that a file defines at its top level."""

    def __init__(self, tree: ast.Module, imported: Mapping[str, str], bases: Collection[str]) -> None:
        """Find the classes that derive from a framework's class, or from `bases`, the project's own agent classes."""
        self.own: set[str] = set()
        self._parts: set[str] = set()
        """Abstract classes, and classes from which another class of the file derives."""
        known = {name for name, original in imported.items() if original in bases}
        for node in top_level(tree.body):
            if isinstance(node, ast.ClassDef):
                derived = {last_name(base, {}) for base in node.bases}
                if any(last_name(base, imported) in agent_classes() for base in node.bases) or derived & (
                    self.own | known
                ):
                    self._parts |= derived & self.own
                    self.own.add(node.name)
                    if any(has_decorator(inner, "abstractmethod", imported) for inner in node.body):
                        self._parts.add(node.name)

    def whole(self) -> list[str]:
        """Return the names of the classes that may be an agent."""
        return sorted(self.own - self._parts)


def _functions_with_server(tree: ast.Module, imported: Mapping[str, str]) -> Iterator[str]:
    """Yield the functions without required arguments that make a server with an executor and return it."""
    servers = FRAMEWORKS["executor"].constructors
    for node in top_level(tree.body):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        given = node.args
        required = len(given.posonlyargs) + len(given.args) - len(given.defaults) + given.kw_defaults.count(None)
        inner = list(ast.walk(node))
        makes = any(isinstance(each, ast.Call) and last_name(each.func, imported) in servers for each in inner)
        returns = any(isinstance(each, ast.Return) and each.value is not None for each in inner)
        if makes and returns and not required and not node.decorator_list:
            yield node.name


def _instance_names(
    tree: ast.Module, imported: Mapping[str, str], classes: set[str], modules: set[str]
) -> Iterator[str]:
    seen: set[str] = set()
    for node in top_level(tree.body):
        if has_decorator(node, "entrypoint", imported):  # of LangGraph
            seen.add(node.name)
            yield node.name
    for name, value in assigned_values(top_level(tree.body)):
        if name not in seen and not name.startswith("_") and _is_agent(name, value, imported, classes, modules):
            seen.add(name)
            yield name


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
