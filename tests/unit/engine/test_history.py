"""An author's `thread.history`: the messages of the context over all its tasks."""

import pytest

from aion_core.clock import SystemClock
from aion_core.ports import ContextKey, TaskKey
from aion_core.tasks.call import CallContext
from aion_core.tasks.conversations import Conversations
from tests.support.agents.scripted import LeaseHeld
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskList, MemoryTaskStore

ALL = ["one", "answer to one", "two", "answer to two", "three", "answer to three"]


@pytest.mark.parametrize(
    ("limit", "before", "expected"),
    [
        (20, None, ALL),
        (3, None, ALL[3:]),
        (0, None, []),
        (20, "m-two", ALL[:2]),
        (1, "m-two", ["answer to one"]),
        (2, "m-three", ALL[2:4]),
        (20, "m-one", []),
        (20, "no such message", ALL),
    ],
)
async def test_history_spans_tasks_of_context(limit: int, before: str | None, expected: list[str]) -> None:
    """`history(limit, before)` returns the newest messages, oldest first."""
    clock = SystemClock()
    store = MemoryTaskStore(clock)
    agent = LeaseHeld()
    agent.go.set()
    service = parts(agent, store, clock).service
    tasks = [
        await service.send(CallContext("owner", "test"), request(text, message_id=f"m-{text}"))
        for text in ("one", "two", "three")
    ]
    await service.send(CallContext("owner", "test"), request("elsewhere", context_id="another"))
    await service.send(CallContext("another owner", "test"), request("elsewhere"))
    history = Conversations(store, MemoryTaskList(store))
    said = await history.history(TaskKey("owner", tasks[-1].id), ContextKey("owner", "test", "c"), limit, before)
    assert [message.parts[0].text for message in said] == expected


async def test_history_reads_no_more_tasks_than_needed() -> None:
    clock = SystemClock()
    asked = 0

    class Counted(MemoryTaskStore):
        async def log(self, key: TaskKey, *, after: int = 0):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            return await super().log(key, after=after)

    store = Counted(clock)
    agent = LeaseHeld()
    agent.go.set()
    service = parts(agent, store, clock).service
    for n in range(25):
        task = await service.send(CallContext("owner", "test"), request(f"{n}", message_id=f"m-{n}"))
    asked = 0
    history = Conversations(store, MemoryTaskList(store))
    said = await history.history(TaskKey("owner", task.id), ContextKey("owner", "test", "c"), 4, None)
    assert [message.parts[0].text for message in said] == ["23", "answer to 23", "24", "answer to 24"]
    assert asked <= 10
