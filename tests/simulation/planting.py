"""Planted bugs: each replaces text in the engine's source for the duration of one test."""

import builtins
import dis
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.simulation.faults import Aim


@dataclass(frozen=True)
class Edit:
    """Replacement of source text in a function of a class or module."""

    owner: Any
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """Planted bug, the scenarios and faults that expose it, and the invariants that must report it."""

    what: str
    edits: tuple[Edit, ...]
    seen_by: frozenset[str]
    scenarios: tuple[str, ...] = field(default=())
    """Scenarios in which to search for the bug; all if empty."""
    aims: tuple[Aim, ...] = ()
    """Faults that expose the bug, each tried alone; random faults rarely would."""
    together: tuple[Aim, ...] = ()
    """Faults that expose the bug only together."""


def plant(edit: Edit, patch: pytest.MonkeyPatch) -> None:
    """Apply the edit; fail if the source lacks the text to replace, so that an outdated bug is noticed."""
    original = getattr(edit.owner, edit.name)
    # Start from the edited source, because an earlier edit may have changed this function.
    source = getattr(original, "planted", None) or textwrap.dedent(inspect.getsource(original))
    old, new = (textwrap.dedent(words).strip("\n") for words in (edit.old, edit.new))
    lines = _fitting(source, old)
    assert source.count(lines) == 1, f"{edit.name} does not say once: {old}"
    indent = lines[: len(lines) - len(lines.lstrip())]
    edited = source.replace(lines, textwrap.indent(new, indent) if "\n" in old or "\n" in new else new)
    module = sys.modules[original.__module__]
    found: dict[str, Any] = {}
    exec(compile(edited, f"<{edit.name}, with a bug>", "exec"), module.__dict__, found)  # noqa: S102
    # A name that the module lacks would raise an error in the engine, which is another bug than the planted one.
    unknown = {name for name in _globals_of(found[edit.name].__code__) if not hasattr(module, name)}
    assert all(hasattr(builtins, name) for name in unknown), f"{edit.name} uses unknown names: {unknown}"
    found[edit.name].planted = edited
    if isinstance(edit.owner, ModuleType):
        # Replace the function in each module, because other modules have imported it by its name.
        for other in [other for name, other in sys.modules.items() if name.startswith("aion_core.")]:
            if getattr(other, edit.name, None) is original:
                patch.setattr(other, edit.name, found[edit.name])
    else:
        patch.setattr(edit.owner, edit.name, found[edit.name])


def _globals_of(code: CodeType) -> set[str]:
    """Return the global names that a function and the functions within it load."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return own.union(*map(_globals_of, inner))


def _fitting(source: str, old: str) -> str:
    """Return the text to replace, indented as in the engine's source."""
    if "\n" not in old:
        return old
    first = old.splitlines()[0]
    at = source.find(first)
    indent = source[source.rfind("\n", 0, at) + 1 : at] if at >= 0 else ""
    return textwrap.indent(old, indent)
