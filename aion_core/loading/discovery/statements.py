"""Statements of a Python file that define names: imports, assignments, decorated functions."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from aion_core.loading.frameworks import scanned_imports


def imports_of(tree: ast.Module) -> tuple[set[str], Mapping[str, str]]:
    """Return the modules that the code imports, and the original names of the imported names."""
    modules: set[str] = set()
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
            if node.module in {prefix.partition(".")[0] for prefix in scanned_imports()}:
                modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules, names


def has_decorator(node: ast.stmt, name: str, imported: Mapping[str, str]) -> TypeGuard[ast.FunctionDef]:
    """Return True if the statement defines a function with a decorator of this name."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(last_name(decorator, imported) == name for decorator in decorators)


def last_name(made_by: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the last part of the name of a function or class, in its original spelling if it is `imported`."""
    if isinstance(made_by, ast.Subscript):
        made_by = made_by.value
    if isinstance(made_by, ast.Attribute):
        return made_by.attr
    return imported.get(made_by.id, made_by.id) if isinstance(made_by, ast.Name) else ""


def assigned_values(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that one of these statements assigns, with the assigned expression."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import of the module, including those within `if`, `try` and `with`."""
    for node in body:
        yield node
        for inner in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                if isinstance(node, ast.If) and _is_main(node) and inner == "body":
                    continue
                yield from top_level(getattr(node, inner, []))


def _is_main(node: ast.If) -> bool:
    """Return True for the statement `if __name__ == "__main__":`."""
    test = node.test
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
