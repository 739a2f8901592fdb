"""Requests to a server that is for this machine only: from its own pages and programs, and from elsewhere."""

from itertools import product

from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
from tests.support.rows import each_row

HOSTS = ["127.0.0.1", "127.0.0.1:8000", "localhost", "LocalHost:8000", "[::1]", "[::1]:8000"]
OTHER_HOSTS = [
    *("", "evil.example", "evil.example:8000", "127.0.0.2", "0.0.0.0", "169.254.169.254", "[::2]", "::1", "[::1"),  # noqa: S104
    *("localhost.evil.example", "evil-localhost", "localhost.", "localhost:", "localhost:123456", "localhost:8000/x"),
    *("localhost@evil.example", "evil.example@localhost", "localhost\n", " localhost", "localhost, evil.example"),
]
ORIGINS = [f"{scheme}://{host}" for scheme in ("http", "https") for host in HOSTS]
OTHER_ORIGINS = [
    *(f"http://{host}" for host in OTHER_HOSTS),
    *("null", "", "localhost", "file://", "ftp://localhost", "//localhost", "http://localhost http://evil.example"),
]


async def status(hosts: tuple[str, ...], origins: tuple[str, ...]) -> int:
    """Return the status of a request with these headers `Host` and `Origin`."""
    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [
            *((b"host", host.encode()) for host in hosts),
            *((b"origin", origin.encode()) for origin in origins),
        ],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await LoopbackOnlyMiddleware(PlainTextResponse("served"))(scope, receive, send)
    found: int = sent[0]["status"]
    return found


@each_row("hosts", [(host,) for host in HOSTS])
async def test_request_of_this_machine_is_served(hosts: tuple[str, ...]) -> None:
    for origins in ((), *((origin,) for origin in ORIGINS), ("http://localhost", "http://localhost")):
        assert await status(hosts, origins) == 200, origins


async def test_request_to_another_host_name_is_refused() -> None:
    """Also one with two names, of which one is this machine's: a proxy and this server may read different ones."""
    pairs = [*product(HOSTS, HOSTS + OTHER_HOSTS), *product(OTHER_HOSTS, HOSTS)]
    wrong = [hosts for hosts in ((), *((host,) for host in OTHER_HOSTS), *pairs) if await status(hosts, ()) != 403]
    assert wrong == []


async def test_request_of_another_site_is_refused() -> None:
    pairs = [*product(ORIGINS, OTHER_ORIGINS), *product(OTHER_ORIGINS, ORIGINS)]
    each = [*((origin,) for origin in OTHER_ORIGINS), *pairs]
    assert [origins for origins in each if await status(("localhost",), origins) != 403] == []
