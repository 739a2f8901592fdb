"""Request bodies: base64, time limits, responses to requests beside a large body, and invalid ids."""

import asyncio
import random
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from aion_core.web.request.body import BODY_IDLE_SECONDS, BODY_SECONDS, BodyRefused, StrictRequest
from aion_core.web.request.params import is_base64
from aion_core.web.rpc import MAX_ID_CHARACTERS
from tests.simulation.loop import SimLoop
from tests.support.agents.counting import talking
from tests.support.rows import each_row
from tests.support.service import http, parts, send

BY_GROUPS = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")


@given(st.text(st.sampled_from("aZ0+/_-= !é"), max_size=12))
def test_base64_check_requires_complete_groups_of_four_characters(text: str) -> None:
    assert is_base64(text) == (BY_GROUPS.fullmatch(text) is not None)


@pytest.mark.parametrize("request_id", ["i" * (MAX_ID_CHARACTERS + 1), "i" * 1_000_000])
async def test_long_request_id_is_refused(request_id: str) -> None:
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={**send("x"), "id": request_id})
        assert answer.json()["id"] is None
        assert "string of at most 256 characters" in answer.json()["error"]["message"]
        longest = await client.post("/", json={**send("x"), "id": "i" * MAX_ID_CHARACTERS})
        assert longest.json()["id"] == "i" * MAX_ID_CHARACTERS


# ── Time limits ───────────────────────────────────────────────────────────────────────────────────────────────────────

PIECE = b"12345"


def read(pauses: Iterable[float], *, is_whole: bool = True) -> tuple[bytes | BodyRefused, float]:
    """Send a body in pieces with these pauses; return the body or its refusal, and the seconds until then."""
    loop = SimLoop(random.Random(1))
    pieces = iter(pauses)

    async def receive() -> Message:
        pause = next(pieces, None)
        if pause is None and not is_whole:
            await asyncio.Event().wait()
        await asyncio.sleep(pause or 0)
        return {"type": "http.request", "body": PIECE if pause is not None else b"", "more_body": pause is not None}

    async def body() -> tuple[bytes | BodyRefused, float]:
        request = StrictRequest({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
        try:
            return await request.body(), loop.time()
        except BodyRefused as refused:
            return refused, loop.time()

    try:
        return loop.run_until_complete(body())
    finally:
        loop.close()


@each_row(
    ("pauses", "seconds"),
    [
        ([], BODY_IDLE_SECONDS),
        ([1.0], 1.0 + BODY_IDLE_SECONDS),
        ([BODY_IDLE_SECONDS + 1], BODY_IDLE_SECONDS),
        ([BODY_IDLE_SECONDS - 1] * 100, BODY_SECONDS),
    ],
)
def test_slow_body_is_refused(pauses: list[float], seconds: float) -> None:
    refused, time = read(pauses, is_whole=False)
    assert isinstance(refused, BodyRefused)
    assert (refused.http, time) == (408, seconds)
    assert "too slowly" in str(refused)


def test_body_in_pieces_is_accepted() -> None:
    assert read([BODY_IDLE_SECONDS - 1] * 6) == (PIECE * 6, 6 * (BODY_IDLE_SECONDS - 1))
