"""Limits of a JSON body: the number of its values, counted in its bytes, and the length of lists."""

import json
import tracemalloc
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError
from hypothesis import given
from hypothesis import strategies as st

from aion_core.web.request_body import MAX_VALUES, check_values
from tests.protocol.dialects import DIALECTS, Dialect
from tests.support.agents.counting import talking
from tests.support.asgi import call
from tests.support.service import parts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('",{}[]:\\\nxé')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('",{[\\x')), inner),
)


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def values_in(value: Any) -> int:
    """Return the number of commas and opening brackets in the JSON of a value."""
    if isinstance(value, dict):
        return max(len(value), 1) + sum(map(values_in, value.values()))
    if isinstance(value, list):
        return max(len(value), 1) + sum(map(values_in, value))
    return 0


@given(JSON)
def test_json_value_limit_ignores_contents_of_texts(value: Any) -> None:
    zeros = b",0" * (MAX_VALUES - values_in(value) - 1)
    check_values(b"[" + dumped(value) + zeros + b"]")
    with pytest.raises(InvalidParamsError, match="5000 values"):
        check_values(b"[" + dumped(value) + zeros + b",0]")


@pytest.mark.parametrize("hostile", ["[]", "{}", '""', '"\\""', "0", '"a":0', '"\\\\":0'])
def test_json_body_with_over_5000_values_is_refused(hostile: str) -> None:
    with pytest.raises(InvalidParamsError, match="more than 5000 values"):
        check_values(",".join([hostile] * (MAX_VALUES + 2)).encode())


def test_check_of_values_takes_little_memory() -> None:
    body = b"[" + b"{}," * 1_500_000 + b"{}]"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidParamsError):
            check_values(body)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()


LONG = [0] * 257
LISTS: dict[str, tuple[dict[str, Any], str]] = {
    "parts": ({"parts": [{"text": "x"}] * 257}, "message.{parts} has more than 256 parts: send fewer."),
    "extensions": ({"extensions": ["x"] * 257}, "message.extensions has more than 256 items: send fewer."),
    "data": ({"parts": [{"data": {"list": LONG}}]}, ""),
    "metadata": ({"metadata": {"list": LONG}}, ""),
    "unknown member": ({"later": LONG, "deeper": {"parts": LONG}}, ""),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("dialect", [pytest.param(each, id=each.name) for each in DIALECTS])
async def test_unknown_lists_in_message_have_no_length_limit(dialect: Dialect, name: str) -> None:
    """Unknown members are ignored (A2A 5.7), so a long list in one is accepted."""
    members, refusal = LISTS[name]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}], **members}
    sent = dialect.request("SendMessage", {"message": message, "later": LONG})
    assert sent is not None
    answer = await call(parts(talking(1)).app(), sent.method, sent.target, sent.body, sent.headers)
    expected = refusal.format(parts="content" if dialect.name == "HTTP+JSON 0.3" else "parts")
    if dialect.name == "HTTP+JSON 0.3":
        expected = expected.replace("256 parts", "256 items")
    assert expected in answer.body.decode()
    assert (b'"error"' in answer.body or answer.status == 400) == bool(refusal), answer.body
