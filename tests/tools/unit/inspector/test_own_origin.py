"""Requests that the console accepts: those of its own page, and of programs without a browser."""

import pytest
from starlette.responses import PlainTextResponse

from aion_tools.inspector.own_origin import OwnOriginMiddleware
from tests.support.asgi import call

OWN = {"host": "127.0.0.1:8400"}


@pytest.mark.parametrize(
    ("headers", "is_served"),
    [
        (OWN, True),  # curl, and a server that posts to the receiver
        ({"host": "localhost:8400", "origin": "http://localhost:8400", "sec-fetch-site": "same-origin"}, True),
        ({"host": "[::1]:8400", "sec-fetch-site": "none"}, True),
        ({"host": "LOCALHOST:8400"}, True),
        # DNS rebinding, and requests without a port or to another one.
        ({"host": "attacker.example:8400"}, False),
        ({"host": "127.0.0.1.attacker.example:8400"}, False),
        ({"host": "127.0.0.1"}, False),
        ({"host": "127.0.0.1:8401"}, False),
        ({}, False),
        # Pages of other sites, of other servers on this machine, and without an origin.
        ({**OWN, "origin": "https://attacker.example"}, False),
        ({**OWN, "origin": "http://127.0.0.1:3000"}, False),
        ({**OWN, "origin": "http://localhost:8400"}, False),
        ({**OWN, "origin": "https://127.0.0.1:8400"}, False),
        ({**OWN, "origin": "null"}, False),
        # Requests that send no Origin, as for a picture.
        ({**OWN, "sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}, False),
        ({**OWN, "sec-fetch-site": "same-site", "sec-fetch-dest": "empty"}, False),
        ({**OWN, "sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}, False),
        # A link of another page.
        ({**OWN, "sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}, True),
    ],
)
async def test_only_own_page_and_programs_are_served(headers: dict[str, str], is_served: bool) -> None:
    app = OwnOriginMiddleware(PlainTextResponse("served"), 8400)
    answer = await call(app, "GET", "/", b"", headers)
    assert (answer.status, answer.body == b"served") == (200 if is_served else 403, is_served)


async def test_form_of_other_page_is_refused() -> None:
    app = OwnOriginMiddleware(PlainTextResponse("served"), 8400)
    headers = {**OWN, "sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await call(app, "POST", "/", b"", headers)).status == 403
