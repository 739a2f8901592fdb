"""Syntax tree of a Python file, and its import statements."""

import ast
from pathlib import Path


def names_in_functions(file: Path) -> set[str]:
    """Return the first part of the name of each absolute import in the file's functions."""
    nodes = ast.walk(parsed(file))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return set[str]().union(*map(imported_names, functions))


def imported_names(tree: ast.AST) -> set[str]:
    """Return the first part of the name of each absolute import in the code."""
    names: set[str] = set()
    for node in imports_in(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def has_relative_imports(file: Path) -> bool:
    """Return True if the file has relative imports, such as `from .tools import …`."""
    return any(isinstance(node, ast.ImportFrom) and node.level for node in imports_in(parsed(file)))


def parsed(file: Path) -> ast.Module:
    """Return the file's syntax tree. It is empty if the file cannot be parsed: an import of the file raises the error."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def imports_in(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Return all import statements in the code."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
