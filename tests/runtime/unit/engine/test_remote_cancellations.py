"""Cancellations of remote tasks: attempts until the remote agent is reached, or ten minutes have passed."""

import itertools
from collections.abc import Awaitable, Callable

import pytest

from aion_core.engine.queues import WakeUp, body_of, wake_up_of
from aion_core.engine.remote_calls import cancellation
from aion_core.engine.remote_calls.cancellation import Canceled, RemoteCancellations
from aion_core.engine.remote_calls.records import CallToCancel, RemoteCall
from aion_core.engine.turn.end import UNREACHED
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.stores import MemoryTaskStore

Attempt = Callable[[CallToCancel], Awaitable[Canceled]]


class CanceledConversation(StoreConversation):
    """Context with a canceled task, whose remote tasks are canceled by `attempt` when a wake-up message arrives."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(MemoryTaskStore(ManualClock()), ManualClock())
        store = self.store
        self.clock = store.clock  # type: ignore[attr-defined]
        self.queue = MemoryWorkQueue(self.clock)
        self.attempts: list[tuple[str, float]] = []
        self._began = self.clock.now()

        async def counted(call: CallToCancel) -> Canceled:
            self.attempts.append((call.call.key, (self.clock.now() - self._began).total_seconds()))
            return await attempt(call)

        self.cancellations = RemoteCancellations(
            store.remote_calls, counted, store.note_unreached, self.queue, self.clock
        )
        self.queue.handled_by(self.cancellations.carry_out)

    async def cancels_calls(self, *keys: str) -> None:
        turn = await self.starts()
        for key in keys:
            await self.store.remote_calls.begin(turn.lease, RemoteCall(key, f"{key}.example", Message(message_id=key)))
        await self.cancels("t-m-1")
        await self.queue.enqueue(self.wake_up)

    @property
    def wake_up(self) -> WakeUp:
        return WakeUp(self.context, task_id="t-m-1")

    async def unreached(self) -> list[str]:
        return list(to_json((await self.task("t-m-1")).metadata).get(UNREACHED, []))

    async def is_closed(self) -> bool:
        return not await self.store.remote_calls.to_cancel(self.key("t-m-1"))


@pytest.mark.parametrize("owner", ["ann", "a#b|c", "Zoë \U0001f98a"])
def test_wake_up_of_canceled_task_is_read_as_written(owner: str) -> None:
    chat = CanceledConversation(_done)
    wake_up = WakeUp(chat.context, task_id="t-1")
    assert wake_up_of(body_of(wake_up)) == wake_up
    assert "task_id" not in body_of(WakeUp(chat.context, 3)), "older functions read the messages of turns"


async def _done(_: CallToCancel) -> Canceled:
    return Canceled.DONE


async def test_each_remote_task_is_canceled_once() -> None:
    chat = CanceledConversation(_done)
    await chat.cancels_calls("weather", "maps")
    await chat.queue.quiet()
    await chat.cancellations.carry_out(chat.wake_up)
    assert sorted(key for key, _ in chat.attempts) == ["maps", "weather"]
    assert await chat.is_closed()
    assert await chat.unreached() == []


async def test_remote_agent_that_comes_back_is_reached() -> None:
    async def gone_for_a_minute(_: CallToCancel) -> Canceled:
        return Canceled.DONE if len(chat.attempts) > 5 else Canceled.NOT_YET

    chat = CanceledConversation(gone_for_a_minute)
    await chat.cancels_calls("weather")
    await chat.clock.passes(65)
    assert await chat.is_closed()
    assert await chat.unreached() == []
    times = [at for _, at in chat.attempts]
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert all(later > earlier for earlier, later in itertools.pairwise(waits)), waits


async def _not_yet(_: CallToCancel) -> Canceled:
    return Canceled.NOT_YET


async def _breaks(_: CallToCancel) -> Canceled:
    raise ConnectionError("no route to host")


@pytest.mark.parametrize("attempt", [_not_yet, _breaks], ids=["no answer", "exception"])
async def test_agent_not_reached_in_ten_minutes_is_noted(attempt: Attempt) -> None:
    chat = CanceledConversation(attempt)
    await chat.cancels_calls("weather")
    for _ in range(13):
        await _later(chat, 50)
    assert await chat.unreached() == ["weather.example"]
    assert await chat.is_closed()
    assert 540 < chat.attempts[-1][1] < 720
    assert len(chat.attempts) < 20


async def _later(chat: CanceledConversation, seconds: float) -> None:
    """Move the clock in one step, and handle what is due: the waits are long."""
    chat.clock.move(seconds)
    await chat.clock.passes(0.5)


async def test_refused_cancellation_is_noted_at_once() -> None:
    async def refuses(_: CallToCancel) -> Canceled:
        return Canceled.NEVER

    chat = CanceledConversation(refuses)
    await chat.cancels_calls("weather")
    await chat.queue.quiet()
    assert await chat.unreached() == ["weather.example"]
    assert len(chat.attempts) == 1


async def test_hanging_attempt_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(_: CallToCancel) -> Canceled:
        import asyncio

        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(cancellation, "ATTEMPT_SECONDS", 0.01)
    chat = CanceledConversation(hangs)
    await chat.cancels_calls("weather")
    await chat.cancellations.carry_out(chat.wake_up)
    assert not await chat.is_closed()
    [found] = await chat.store.remote_calls.to_cancel(chat.key("t-m-1"))
    assert found.tries == 1


async def test_one_unreachable_agent_does_not_delay_others() -> None:
    async def one_is_gone(call: CallToCancel) -> Canceled:
        return Canceled.NOT_YET if call.call.key == "maps" else Canceled.DONE

    chat = CanceledConversation(one_is_gone)
    await chat.cancels_calls("maps", "weather")
    await chat.clock.passes(0.1)
    assert [each.call.key for each in await chat.store.remote_calls.to_cancel(chat.key("t-m-1"))] == ["maps"]
