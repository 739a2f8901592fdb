"""Time limits of a request body, with virtual time."""

import asyncio
import random
from collections.abc import Iterable

import pytest
from starlette.types import Message

from aion_core.web.request_body import BODY_IDLE_SECONDS, BODY_SECONDS, BodyRefused, StrictRequest
from tests.simulation.loop import SimLoop

PIECE = b"12345"


def read(pauses: Iterable[float], *, is_whole: bool = True) -> tuple[bytes | BodyRefused, float]:
    """Read a body with a piece after each pause. Return it or its refusal, and the time."""
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


@pytest.mark.parametrize(
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
