"""JSON of large responses: the same as Starlette's, without its copies."""

import json
from typing import Any

import pytest
from starlette.responses import JSONResponse

from aion_core.web.json_answer import JsonAnswer


@pytest.mark.parametrize(
    "value",
    [
        {"result": {"text": 'a"b\\c/\n\x00\x1f\x7f', "more": ["é", "😀", "\u2028"]}, "id": None, "jsonrpc": "2.0"},
        {"ints": [0, -1, 2**53 - 1, 2**53], "floats": [0.5, -0.0, 1e300, 1e22, 1.5e-7], "flags": [True, False]},
        {},
    ],
)
def test_answer_is_same_json_as_of_starlette(value: Any) -> None:
    answer, expected = JsonAnswer(value), JSONResponse(value)
    assert json.loads(bytes(answer.body)) == json.loads(bytes(expected.body))
    assert len(answer.body) <= len(expected.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))


def test_answer_has_characters_as_utf8() -> None:
    assert JsonAnswer({"a": "é😀"}).body == '{"a":"é😀"}'.encode()
