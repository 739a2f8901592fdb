"""Limit of a JSON body: the length of lists."""

from typing import Any

from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.support.agents.counting import talking
from tests.support.asgi import call
from tests.support.rows import each_row
from tests.support.service import parts

LONG = [0] * 257
LISTS: dict[str, tuple[dict[str, Any], str]] = {
    "parts": ({"parts": [{"text": "x"}] * 257}, "message.{parts} has more than 256 parts: send fewer."),
    "extensions": ({"extensions": ["x"] * 257}, "message.extensions has more than 256 items: send fewer."),
    "data": ({"parts": [{"data": {"list": LONG}}]}, ""),
    "metadata": ({"metadata": {"list": LONG}}, ""),
    "unknown member": ({"later": LONG, "deeper": {"parts": LONG}}, ""),
}


@each_row("name", LISTS)
@each_row("dialect", DIALECTS)
async def test_list_in_unknown_field_of_message_has_no_limit(dialect: Dialect, name: str) -> None:
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
