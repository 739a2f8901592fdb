"""Helpers for tests of the setting `reply`, which selects a task or a Message as response."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.call import CallContext
from aion_core.engine.stream.broadcast import StreamItem
from tests.runtime.unit.engine.teller import Teller
from tests.runtime.unit.engine.wire import DIALECTS, WireClient
from tests.support.clock import ManualClock
from tests.support.requests import request
from tests.support.service import ServiceParts, http, parts
from tests.support.stores import MemoryTaskStore

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
COMPLETED = {"1.0": "TASK_STATE_COMPLETED", "0.3": "completed"}


def caller() -> CallContext:
    return CallContext("owner", "test")


@asynccontextmanager
async def client_of(made: ServiceParts, dialect: str = "1.0") -> AsyncIterator[WireClient]:
    async with http(made.app()) as client:
        yield WireClient(client, dialect)


def made_with(
    reply: ReplyAs, agent: Any = None, store: MemoryTaskStore | None = None, clock: Any = None
) -> ServiceParts:
    """Return a service of the agent. By default its clock stands still, so that each answer is a quick one."""
    return parts(agent or Teller(), store, clock or ManualClock(), reply=reply)


def another_process(made: ServiceParts, store: MemoryTaskStore, clock: Any, reply: ReplyAs) -> ServiceParts:
    """Return a service of another process over the same store; its agent must not run."""
    return parts(Teller(), store, clock, reply=reply)


async def streamed(
    made: ServiceParts, text: str, *, call: CallContext | None = None, **options: Any
) -> list[StreamItem]:
    stream = made.service.stream(call or caller(), request(text, **options))
    return [item async for batch in stream for item in batch]


def kinds(item: list[StreamItem]) -> list[str]:
    return [type(each.payload).__name__ for each in item]


async def until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come true")
