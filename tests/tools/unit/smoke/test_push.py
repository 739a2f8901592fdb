"""Requests received by the webhook of `aion smoke`."""

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from aion_tools.smoke.push import ReceivedPosts

KEY = Webhook(base64.b64encode(b"k" * 32).decode())
DONE = b'{"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}}'


def signed(body: bytes) -> dict[str, str]:
    now = datetime.now(UTC)
    signature = KEY.sign("m-1", now, body.decode())
    return {"webhook-id": "m-1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (DONE, {"webhook-id": ""}),
        (DONE, {"webhook-id": "m-2"}),
        (DONE, {"webhook-signature": "v1,a"}),
        (DONE, {"webhook-signature": "none"}),
        (b"\xff", {}),
    ],
)
def test_webhook_ignores_posts_without_valid_signature(body: bytes, changed: dict[str, str]) -> None:
    posts = ReceivedPosts()
    assert not posts.add(body, {**signed(DONE), **changed}, KEY)
    assert str(posts) == "0 notifications arrived (ignored without a valid signature: 1)"
    assert posts.add(DONE, signed(DONE), KEY)
    assert posts.invalid == []
    assert str(posts) == "1 notifications arrived, all signed (ignored without a valid signature: 1)"


@pytest.mark.parametrize("body", [b"no JSON", b'{"unknown": 1}'])
def test_webhook_reports_signed_posts_with_wrong_body(body: bytes) -> None:
    posts = ReceivedPosts()
    assert not posts.add(body, signed(body), KEY)
    assert (posts.unsigned, len(posts.invalid)) == (0, 1)
    assert "1 with a wrong body" in str(posts)
