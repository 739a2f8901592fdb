"""docs/limits.md: its numbers are those of the code and the template."""

import pkgutil
import re
from collections.abc import Sized
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from aion_tools.template.reader import Place, Template
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.support.agents.counting import talking
from tests.support.service import http, parts

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


@pytest.mark.parametrize("dialect", [pytest.param(each, id=each.name) for each in DIALECTS])
async def test_data_and_metadata_may_be_nested_as_deeply_as_documented(dialect: Dialect) -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    [depths] = re.findall(r"the data of a part may have (\d+) levels, and the metadata of a message (\d+)\.", page)
    data, metadata = map(int, depths)

    async def accepts(data: int, metadata: int) -> bool:
        given = {"parts": [{"data": nested(data)}], "metadata": nested(metadata)}
        sent = dialect.request(
            "SendMessage", {"message": {"messageId": f"{data}/{metadata}", "role": "ROLE_USER", **given}}
        )
        assert sent is not None
        answer = await client.request(sent.method, sent.target, content=sent.body, headers=sent.headers)
        assert "error" not in answer.text or "levels" in answer.text
        return "levels" not in answer.text

    async with http(parts(talking(1)).app()) as client:
        assert await accepts(data, metadata)
        # Nest data one level deeper over HTTP+JSON, because in JSON-RPC the envelope already takes one level.
        more = 1 if dialect.name.startswith("JSON-RPC") else 2
        assert not await accepts(data + more, metadata)
        assert not await accepts(data, metadata + more)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value
