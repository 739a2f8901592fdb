"""Webhook client and SSRF checks against a real server on loopback."""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aion_core.push.client import Blocked, Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone
from aion_core.push.pinned_client import PinnedWebhookClient, retry_after
from aion_core.push.ssrf import WebhookPolicy
from tests.runtime.unit.push.tls import authority
from tests.support.clock import ManualClock
from tests.support.receiver import (
    Behaviour,
    WebhookReceiver,
    answers,
    dies,
    drips,
    floods,
    holds,
    receiving,
    talks_nonsense,
)
from tests.support.rows import each_row

LOOPBACK = WebhookPolicy.for_service("http://127.0.0.1:1", http=True, networks=["127.0.0.1/32"])
"""Policy that allows 127.0.0.1 too, as in development."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"


def client(allowed: WebhookPolicy = LOOPBACK, **given: Any) -> PinnedWebhookClient:
    return PinnedWebhookClient(allowed, ManualClock(), **{"seconds": 60.0, "body_seconds": 0.05, **given})


async def posted(receiver: WebhookReceiver, **given: Any) -> PostOutcome:
    return await client(**given).post(receiver.url(), {"Content-Type": "application/json", "X": "y"}, b'{"a":1}')


async def test_webhook_post_arrives_unchanged() -> None:
    async with receiving(answers(204)) as receiver:
        assert await client().post(receiver.url("/a%20b?c=d&e"), {"X-Mine": "1"}, b"\x00body") == Delivered()
    (post,) = receiver.posts
    assert post.line == "POST /a%20b?c=d&e HTTP/1.1"
    assert post.body == b"\x00body"
    assert post.headers["x-mine"] == "1"
    assert post.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert set(post.headers) == {
        "host",
        "accept",
        "accept-encoding",
        "user-agent",
        "x-mine",
        "content-length",
        "connection",
    }


@each_row(
    ("behaviour", "outcome"),
    [
        (answers(200, b"thanks"), Delivered()),
        (answers(202), Delivered()),
        (answers(410), WebhookGone()),
        (answers(400), PostRefused(400)),
        (answers(404), PostRefused(404)),
        (answers(429, Retry_After="30"), PostRefused(429, 30.0)),
        (answers(503, Retry_After="soon"), PostRefused(503)),
        (answers(500, b"x" * 10_000), PostRefused(500)),
        (answers(304), PostRefused(304)),
        (dies, Unreachable("the answer is not HTTP, or the connection ended before it")),
        (talks_nonsense, Unreachable("the answer is not HTTP, or the connection ended before it")),
        (drips(b"HTTP/1.1 200 OK\r\nX-Long: ", 0.001), Unreachable("no answer in time")),
        (drips(b"", 0.001), Unreachable("no answer in time")),
        (drips(OK, 0.01), Delivered()),
        (drips(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", 0.01), PostRefused(500)),
    ],
)  # fmt: skip
async def test_webhook_post_returns_outcome_of_response(behaviour: Behaviour, outcome: PostOutcome) -> None:
    """The status decides the outcome, even if reading the response's body fails."""
    async with receiving(behaviour) as receiver:
        # Use a short time limit only for the receiver that sends no response.
        is_late = outcome == Unreachable("no answer in time")
        assert await posted(receiver, seconds=0.5 if is_late else 60.0) == outcome
    # On a busy machine, the short time limit may end before the request is sent.
    assert len(receiver.posts) == 1 or (is_late and not receiver.posts)


async def test_webhook_post_without_response_times_out() -> None:
    release = asyncio.Event()
    async with receiving(holds(release)) as receiver:
        assert await posted(receiver, seconds=0.2) == Unreachable("no answer in time")
        release.set()


async def test_webhook_post_times_out_if_receiver_does_not_read_body() -> None:
    ended = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    port = server.sockets[0].getsockname()[1]
    outcome = await client(seconds=0.3).post(f"http://127.0.0.1:{port}/", {}, b"x" * 50_000_000)
    ended.set()
    server.close()
    assert outcome == Unreachable("no answer in time")


async def test_closed_webhook_port_is_unreachable() -> None:
    async with receiving() as receiver:
        pass
    assert await posted(receiver) == Unreachable("no connection")


async def test_only_start_of_webhooks_response_body_is_read() -> None:
    written: list[int] = []
    async with receiving(floods(OK, 1024, written)) as receiver:
        assert await posted(receiver, body_seconds=60.0) == Delivered()
        await asyncio.sleep(0.05)
    assert written[0] < 16 * 1024 * 1024, "what the two sockets hold, and no more"


async def test_webhook_posts_share_no_cookie_or_connection() -> None:
    """Post twice: the second post sends no cookie of the first, and uses a new connection."""
    async with receiving(answers(200, Set_Cookie="a=b; Path=/", Connection="keep-alive")) as receiver:
        same = client()
        for _ in range(2):
            assert await same.post(receiver.url(), {}, b"{}") == Delivered()
    assert receiver.connections == 2
    assert "cookie" not in receiver.posts[1].headers


async def test_webhook_posts_ignore_proxy_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set proxies and credentials in the environment: a post uses neither."""
    async with receiving() as proxy, receiving() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url(""))
        assert await posted(receiver) == Delivered()
    assert (len(receiver.posts), proxy.connections) == (1, 0)
    assert "authorization" not in receiver.posts[0].headers


class Names:
    """DNS resolver that returns these answers in turn; the last answer repeats."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, int]]()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_webhook_host_name_is_resolved_once() -> None:
    """The post uses the checked address: a later change of the DNS answer has no effect."""
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with receiving() as receiver:
        url = receiver.url(host="hooks.example.org")
        hook = client(resolve=names)
        assert await hook.post(url, {}, b"{}") == Delivered()
        assert names.asked == [("hooks.example.org", receiver.port)]
        assert receiver.posts[0].headers["host"] == f"hooks.example.org:{receiver.port}"
        # Post again: the client must resolve the name anew, and check the new addresses.
        assert isinstance(await hook.post(url, {}, b"{}"), Blocked)
    assert receiver.connections == 1


@each_row("addresses", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "::ffff:127.0.0.1"], ["127.0.0.2"], ["::1"], []])  # fmt: skip
async def test_host_with_one_blocked_address_gets_no_post(addresses: list[str]) -> None:
    async with receiving() as receiver:
        outcome = await client(resolve=Names(addresses)).post(receiver.url(host="hooks.example.org"), {}, b"{}")
    assert isinstance(outcome, Blocked)
    assert receiver.connections == 0


@each_row("url", ["http://169.254.169.254/latest/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.1/", "ftp://127.0.0.1/", "http://127.0.0.1:1/", "nonsense"])  # fmt: skip
async def test_webhook_url_is_checked_at_each_post(url: str) -> None:
    """The settings may have become stricter after the registration of the URL."""
    assert isinstance(await client().post(url, {}, b"{}"), Blocked)


async def test_webhook_post_tries_next_address_after_connection_failure() -> None:
    both = WebhookPolicy.for_service("http://127.0.0.1:1", http=True, networks=["127.0.0.0/8"])
    async with receiving() as receiver:
        hook = client(both, resolve=Names(["127.0.0.9", "127.0.0.1"]))
        assert await hook.post(receiver.url(host="hooks.example.org"), {}, b"{}") == Delivered()


async def test_webhook_with_unknown_host_name_is_unreachable() -> None:
    hook = client(resolve=Names(OSError("no such name")))
    assert await hook.post("http://hooks.example.org/", {}, b"{}") == Unreachable("no connection")
    assert isinstance(await client().post("http://localhost:1/", {}, b"{}"), Unreachable | Blocked)


async def test_tls_certificate_is_verified_for_webhook_host_name() -> None:
    server, trusting = authority("hooks.example.org")
    stranger, _ = authority("hooks.example.org")
    async with receiving(tls=server) as receiver, receiving(tls=stranger) as forger:
        url = receiver.url(host="hooks.example.org", scheme="https")
        names = Names(["127.0.0.1"])
        assert await client(resolve=names, tls=trusting).post(url, {}, b"{}") == Delivered()
        other = url.replace("hooks", "other")
        assert await client(resolve=names, tls=trusting).post(other, {}, b"{}") == Unreachable("no valid certificate")
        by_address = receiver.url(scheme="https")
        assert await client(tls=trusting).post(by_address, {}, b"{}") == Unreachable("no valid certificate")
        forged = forger.url(host="hooks.example.org", scheme="https")
        assert await client(resolve=names, tls=trusting).post(forged, {}, b"{}") == Unreachable("no valid certificate")
        # A client with the system's certificate store refuses the receiver's certificate.
        assert await client(resolve=names).post(url, {}, b"{}") == Unreachable("no valid certificate")
    assert [len(each.posts) for each in (receiver, forger)] == [1, 0]
    assert isinstance(server, ssl.SSLContext)


async def test_header_with_line_break_is_not_posted() -> None:
    """Registration refuses such a value; the client does not rely on it."""
    async with receiving() as receiver:
        assert isinstance(await client().post(receiver.url(), {"A": "b\r\nC: d"}, b"{}"), Unreachable)
    assert receiver.posts == []


def test_retry_after_is_seconds_or_date() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert retry_after("120", now) == 120.0
    assert retry_after("Sat, 31 Jan 2026 12:01:00 GMT", now) == 60.0
    assert retry_after("Sat, 31 Jan 2026 11:00:00 GMT", now) == 0.0
    for said in (
        "",
        "-1",
        "1.5",
        "soon",
        "\u0663",
        "9" * 400,
        "Sat, 31 Feb 2026 12:01:00 GMT",
        "Sat, 31 Jan 2026 12:01:00 +9999999",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "\x00",
    ):
        assert retry_after(said, now) is None
    assert now - timedelta(0) == now
