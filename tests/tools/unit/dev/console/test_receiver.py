"""Webhook receiver of the console: the task of a post in each protocol version, and the limit of stored posts."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
from starlette.responses import PlainTextResponse

from aion_tools.dev.console.receiver import MAX_POSTS, ReceiverMiddleware, WebhookPost, WebhookReceiver
from tests.support.rows import each_row


@each_row(
    ("body", "task_id"),
    [
        ({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {}}}, "t"),
        ({"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a"}}}, "t"),
        ({"task": {"id": "t", "contextId": "c", "status": {}}}, "t"),
        ({"kind": "task", "id": "t", "status": {"message": {"taskId": "other"}}}, "t"),
        ({"message": {"messageId": "m"}}, ""),
        ([1], ""),
        ("text", ""),
    ],
)
def test_webhook_post_is_shown_at_task_named_in_it(body: Any, task_id: str) -> None:
    post = WebhookPost(datetime.now(UTC), 204, {}, json.dumps(body).encode())
    assert post.task_id == task_id


def test_webhook_post_that_is_not_json_is_shown_as_text() -> None:
    post = WebhookPost(datetime.now(UTC), 204, {}, b"\xff<b>")
    assert (post.document([])["body"], post.document([])["signed"]) == ("\ufffd<b>", False)


async def test_console_receiver_keeps_newest_posts() -> None:
    receiver = WebhookReceiver("http://test/console/receiver")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(receiver), base_url="http://test") as client:
        for number in range(MAX_POSTS + 1):
            receiver.status = 204 if number else 500
            answered = await client.post("/console/receiver", json={"task": {"id": "t", "number": number}})
            assert answered.status_code == receiver.status
    posts = receiver.posts_of("t")
    assert [post.content["task"]["number"] for post in posts] == list(range(MAX_POSTS, 0, -1))


@each_row(
    ("method", "path", "status"),
    [
        ("POST", "/console/receiver", 204),
        ("GET", "/console/receiver", 200),
        ("POST", "/console/receiver/", 200),
        ("POST", "/", 200),
    ],
)
async def test_only_posts_to_receivers_path_reach_it(method: str, path: str, status: int) -> None:
    receiver = WebhookReceiver("http://test/console/receiver")
    app = ReceiverMiddleware(PlainTextResponse("the app's"), receiver)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.request(method, path)).status_code == status
