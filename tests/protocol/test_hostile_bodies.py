"""Costs of hostile request bodies in four dialects: bytes of the response, and processor time."""

import pytest

from tests.protocol.hostile_bodies import (
    LARGEST,
    SIZES,
    Cost,
    allowed_bytes,
    allowed_cpu_seconds,
    cost_of,
    hostile_app,
    hostile_bodies,
    row,
)

CPU_MARGIN = 4
"""Factor for a busy machine, and for the turns of accepted messages."""


async def costs(*sizes: int) -> list[Cost]:
    app = hostile_app()
    found = [await cost_of(app, body) for body in hostile_bodies(*sizes)]
    slowest = sorted(found, key=lambda cost: cost.cpu_seconds, reverse=True)[:10]
    print(f"{len(found)} bodies, {sum(cost.cpu_seconds for cost in found):.1f} s; the slowest:")
    print(*map(row, slowest), sep="\n")
    return found


async def test_responses_to_hostile_bodies_are_small() -> None:
    found = await costs(*SIZES)
    assert len(found) >= 200
    assert [row(cost) for cost in found if len(cost.answer) > allowed_bytes(cost)] == []
    assert [row(cost) for cost in found if cost.status >= 500] == []


@pytest.mark.deep
async def test_hostile_bodies_take_bounded_cpu_time() -> None:
    found = await costs(*SIZES, LARGEST)
    assert [row(cost) for cost in found if len(cost.answer) > allowed_bytes(cost)] == []
    slow = [cost for cost in found if cost.cpu_seconds > CPU_MARGIN * allowed_cpu_seconds(cost.body)]
    assert [row(cost) for cost in slow] == []
