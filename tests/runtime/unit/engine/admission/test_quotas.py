"""Limit of a caller's open tasks: running tasks and those being created count, ended ones do not."""

import pytest

from aion_core.engine.admission.messages import NewTask
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.limits.open_tasks import BEING_CREATED
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.errors import TooManyRequests
from aion_core.local.memory.table import MemoryTable
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation, of
from tests.support.stores import MemoryTaskStore


@pytest.fixture
def chat(clock: ManualClock) -> StoreConversation:
    return StoreConversation(MemoryTaskStore(clock), clock)


@pytest.fixture
def tasks(chat: StoreConversation, clock: ManualClock) -> OpenTasks:
    return OpenTasks(RateLimits(MemoryTable(clock), clock), chat.store, clock, most=1)


def new(chat: StoreConversation, number: int) -> NewTask:
    """Return a new task in its own context."""
    return of(chat, context_id=f"c-{number}").message(f"m-{number}")


async def test_task_being_created_counts_as_open(chat: StoreConversation, tasks: OpenTasks) -> None:
    """Admit two messages before either task is stored: together they must not exceed the limit."""
    await tasks.admit("caller", new(chat, 1))
    with pytest.raises(TooManyRequests):
        await tasks.admit("caller", new(chat, 2))
    chat.clock.move(BEING_CREATED.total_seconds() - 1)
    with pytest.raises(TooManyRequests):
        await tasks.admit("caller", new(chat, 2))
    chat.clock.move(2)
    await tasks.admit("caller", new(chat, 2))


async def test_running_task_counts_as_open_until_its_end(chat: StoreConversation, tasks: OpenTasks) -> None:
    await tasks.admit("caller", chat.message("m-1"))
    begun = await chat.starts("m-1")
    chat.clock.move(2 * BEING_CREATED.total_seconds())
    with pytest.raises(TooManyRequests):
        await tasks.admit("caller", new(chat, 2))
    await chat.ends(begun)
    await tasks.admit("caller", new(chat, 2))
