"""docs/limits.md: its numbers are those of the code and the template."""

import pkgutil
import re
from collections.abc import Sized
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from aion_tools.template.reader import Place, Template

ROOT = Path(__file__).parents[3]
UNITS = {"": 1, "KiB": 1024, "MiB": 1024 * 1024, "s": 1, "days": 1}
ROW = re.compile(
    r"^\| ([^|]+) \| ([\d.]+) ?([A-Za-z]*) \| [^|]*\| `(aion_core\.[^`]+|template\.yaml: [^`]+)`", re.MULTILINE
)
ROWS = ROW.findall((ROOT / "docs" / "limits.md").read_text(encoding="utf-8"))


class _TagIgnoringLoader(yaml.SafeLoader):
    """YAML loader for a template's parameters that ignores its tags."""


_TagIgnoringLoader.add_multi_constructor("!", lambda loader, suffix, node: None)


def in_code(name: str) -> float:
    value = pkgutil.resolve_name(name)
    if isinstance(value, timedelta):
        return value.total_seconds()
    # For a list of retry delays, return the number of attempts: the first one, and one after each delay.
    return len(value) + 1 if isinstance(value, Sized) else float(value)


@cache
def template() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((ROOT / "template.yaml").read_text(), _TagIgnoringLoader)  # noqa: S506  # a SafeLoader
    return document


@cache
def resolved(resource: str) -> Any:
    place = Place("123456789012", "us-east-1", "https://sqs", "limits")
    return Template(ROOT / "template.yaml", place).resolved(resource)


def in_template(name: str) -> float:
    document = template()
    first, *rest = name.split(".")
    if not rest:
        return float(document["Parameters"][first]["Default"])
    found: Any = document
    if first == "Globals":
        rest = [first, *rest]
    else:
        found = resolved(first)
    for step in rest:
        found = found[step]
    return float(found)


def test_documented_limit_equals_constant_in_code() -> None:
    assert len(ROWS) >= 35
    for limit, number, unit, where in ROWS:
        name = where.removeprefix("template.yaml: ")
        assert float(number) * UNITS[unit] == (in_template(name) if name != where else in_code(name)), limit
