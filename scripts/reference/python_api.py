"""Reference page of the Python API, from docstrings and signatures."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import griffe

from scripts.reference.tables import cell, code

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "aion.langgraph",
    "aion.langgraph.stream",
    "aion.langgraph.scripted",
    "aion.adk",
    "aion.adk.scripted",
    "aion.shared.types",
    "aion_tools.testing",
)
"""Modules that the code and the tests of an agent may import."""
_PUBLIC = {"aion_tools.testing": ["serve", "AgentClient", "AgentReply"]}
"""Public names of the modules without `__all__`."""


def python_page() -> str:
    """Return the page of the Python API: each public name once, with its signature and docstring."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)])
    loader.load("aion_core")
    lines = [
        "# Python API",
        "",
        "Names that the code and the tests of an agent may import. Other modules may change at any time.",
        "",
    ]
    described: dict[str, str] = {}
    for path in MODULES:
        # Load aion_core once for all modules, because each load would read all its files.
        module = loader.modules_collection[path] if path.startswith("aion_core.") else loader.load(path)
        loader.resolve_aliases(external=False)
        lines += [f"## {path}", "", _text(module), ""]
        for name in _PUBLIC.get(path) or module.exports or []:
            member = module.members[str(name)]
            target = member.final_target if isinstance(member, griffe.Alias) else member
            if first := described.get(target.path):
                lines += [f"- `{name}`: as in `{first}`.", ""]
                continue
            described[target.path] = path
            lines += _member(target, 3)
    return "\n".join(lines) + "\n"


def _member(item: griffe.Object, level: int) -> Iterator[str]:
    mark = "#" * level
    if isinstance(item, griffe.Function):
        yield from (f"{mark} {item.name}", "", "```text", _signature(item), "```", "", _text(item), "")
    elif isinstance(item, griffe.Class):
        yield from (f"{mark} {item.name}", "", _text(item), "")
        if attributes := [each for each in item.attributes.values() if each.is_public and each.docstring]:
            yield from ("| Attribute | Type | Meaning |", "| --- | --- | --- |")
            for each in attributes:
                kind = str(each.annotation or "").strip("\"'")
                yield f"| `{each.name}` | {code(kind)} | {cell(_text(each))} |"
            yield ""
        for method in item.functions.values():
            if method.is_public and method.docstring and not method.name.startswith("__"):
                yield from _member(method, level + 1)


def _signature(function: griffe.Function) -> str:
    parameters = []
    star = False
    for each in function.parameters:
        if each.name == "self":
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not star:
            parameters.append("*")
            star = True
        kind = f": {each.annotation}" if each.annotation else ""
        default = f" = {each.default}" if each.default is not None and kind else ""
        parameters.append(f"{each.name}{kind}{default}")
    prefix = "async " if "async" in function.labels else ""
    result = f" -> {function.returns}" if function.returns else ""
    line = f"{prefix}{function.name}({', '.join(parameters)}){result}"
    if len(line) <= 100:
        return line
    return f"{prefix}{function.name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){result}"


def _text(item: griffe.Object | griffe.Alias) -> str:
    return inspect.cleandoc(item.docstring.value) if item.docstring else ""
