"""What aion's code says that a template has to agree with: it is read, and none of it is run."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from aion_core.template.reader import FUNCTION, Template, TemplateError

# The variables that settings.py reads.
READ = re.compile(r"(AION|AWS|OTEL|POWERTOOLS)_[A-Z_]+")


def core(template: Template) -> Path:
    """Return the folder of aion's code, beside the template."""
    folder: str = template.resolved("ApiFunction", "CodeUri").get("CodeUri", ".")
    return template.path.parent / folder / "aion_core"


def with_handler(template: Template, handler: str) -> list[str]:
    """Return the functions that run a module of `handlers`."""
    return [name for name in template.resources(FUNCTION) if template.properties(name).get("Handler") == handler]


def constants(file: Path) -> dict[str, Any]:
    """Return what stands at a module's top by its name; not what is calculated.

    Of a call that names all its arguments those are returned, by their names. Raises TemplateError where there is no such
    file.
    """
    return _constants(_source(file))


def variables_read(file: Path) -> dict[str, bool]:
    """Return the names of the variables that a module reads, and whether each has a default everywhere."""
    return _variables_read(_source(file))


def names(file: Path) -> frozenset[str]:
    """Return what a module defines at its top."""
    return _names(_source(file))


def texts_of_classes(file: Path) -> frozenset[str]:
    """Return the texts that the attributes of a module's classes are: an enumeration's values."""
    return _texts_of_classes(_source(file))


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateError(f"cannot read {file}: {error.strerror}") from error


# The same text says the same wherever it lies: in the tests it lies in many folders.
@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def _constants(source: str) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for statement in _tree(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    known[name] = _value(value, known)
                except LookupError:
                    continue
    return known


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return what is written; raises LookupError for what would have to be calculated."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return known[name]
        case ast.Tuple(elts=parts):
            return tuple(_value(part, known) for part in parts)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {_value(key, known): _value(value, known) for key, value in pairs if key is not None}
        case ast.Call(args=[], keywords=arguments):
            return {each.arg: _value(each.value, known) for each in arguments}
    raise LookupError


@cache
def _variables_read(source: str) -> dict[str, bool]:
    read: dict[str, bool] = {}
    for node in ast.walk(_tree(source)):
        match node:
            case ast.Call(args=[ast.Constant(value=str(name)), *defaults]) if READ.fullmatch(name):
                # `None` says that it has to be there, also where only some deployments need it.
                needed = any(
                    isinstance(part, ast.Constant) and part.value is None for d in defaults for part in ast.walk(d)
                )
                read[name] = read.get(name, True) and not needed
            case ast.Subscript(slice=ast.Constant(value=str(name))) if READ.fullmatch(name):
                read[name] = False
    return read


@cache
def _names(source: str) -> frozenset[str]:
    found: set[str] = set()
    for statement in _tree(source).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found.update(alias.asname or alias.name for alias in aliases)
    return frozenset(found)


@cache
def _texts_of_classes(source: str) -> frozenset[str]:
    return frozenset(
        statement.value.value
        for node in ast.walk(_tree(source))
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
