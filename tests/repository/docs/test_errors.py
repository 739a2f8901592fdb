"""docs/errors.md: its table and its bodies are those of the error mapping in the code."""

import json
import re

from aion_core.errors import TaskNotFound
from aion_core.protocol.errors import WIRE_ERRORS, WireError
from aion_core.protocol.strict_json import MAX_DEPTH
from aion_core.web.errors import error_body, rest_error_body, v03_rest_error_body
from tests.support.agents.counting import talking
from tests.support.server import ROOT
from tests.support.service import http, parts

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def key(form: WireError) -> tuple[int, str, int]:
    return form.code, form.reason, form.http


def test_errors_page_lists_each_protocol_error() -> None:
    rows = re.findall(r"^\| (-\d+) \| `([A-Z_]+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert sorted((int(code), reason, int(http)) for code, reason, http in rows) == sorted(
        key(form) for form in WIRE_ERRORS.values()
    )


def test_errors_page_shows_error_body_of_each_binding() -> None:
    error = TaskNotFound("unknown")
    shown = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
    assert shown == [error_body(1, error), rest_error_body(error), v03_rest_error_body(error)]


def test_errors_page_marks_temporary_errors_as_retryable() -> None:
    again = re.findall(r"^\| -\d+ \| `([A-Z_]+)` .* \| yes \|$", PAGE, re.MULTILINE)
    assert set(again) == {form.reason for form in WIRE_ERRORS.values() if form.http in (429, 503)} | {"INTERNAL_ERROR"}


async def test_errors_page_has_error_code_for_too_deeply_nested_body() -> None:
    (code,) = re.findall(r"^\| (-\d+) \| .* 32 levels deep", PAGE, re.MULTILINE)
    async with http(parts(talking(1)).app()) as client:
        for levels in (MAX_DEPTH + 1, 2_000):
            body = b"[" * levels + b"]" * levels
            answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})
            assert answer.json()["error"]["code"] == int(code), levels
