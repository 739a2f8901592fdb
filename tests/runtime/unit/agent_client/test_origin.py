"""Origins of URLs, as a hostile card may write them."""

from contextlib import suppress

import httpx
import pytest

from aion_core.agent_client.origin import OnlyForOrigin, origin_of
from tests.support.downgraded import downgraded
from tests.support.rows import each_row

URL = "https://a.example/x"


@pytest.mark.parametrize("same", ["https://A.example/y", "https://a.example:443", "https://me:secret@a.example/"])
def test_same_scheme_host_and_port_are_one_origin(same: str) -> None:
    assert origin_of(same) == origin_of(URL)


@each_row("what", downgraded(URL))
async def test_credentials_go_to_their_origin_only(what: str) -> None:
    """Send a request to each address, and answer one to the origin with a redirect to it."""
    other, seen = downgraded(URL)[what], dict[httpx.URL, str | None]()
    assert origin_of(other) != origin_of(URL)

    async def answer(request: httpx.Request) -> httpx.Response:
        seen[request.url] = request.headers.get("authorization")
        return httpx.Response(307, headers={"location": other}) if request.url == URL else httpx.Response(200)

    auth = OnlyForOrigin(URL, httpx.BasicAuth("me", "secret"))
    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(answer)) as client:
        for url, follows in ((other, False), (URL, True)):
            with suppress(httpx.HTTPError, httpx.InvalidURL, ValueError):
                await client.get(url, follow_redirects=follows)
    assert [url for url, sent in seen.items() if sent] == [URL]


@each_row("url", ["", "/", "a.example", "ftp://a.example/", "http://", "http://[::1", "http://a:99999999/"])
def test_unusable_url_has_no_origin(url: str) -> None:
    assert origin_of(url) is None


def test_names_of_this_machine_are_one_host() -> None:
    assert origin_of("http://127.0.0.1:8000") == origin_of("http://[::1]:8000/a") == origin_of("http://localhost:8000")
    assert origin_of("http://127.0.0.1:8000") != origin_of("http://localhost:8001")
