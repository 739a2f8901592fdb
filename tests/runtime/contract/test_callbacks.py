"""Callbacks of remote agents, on each table: a token wakes one suspended turn, once."""

import asyncio
from datetime import datetime, timedelta

from msgspec.structs import replace

from aion_core.engine.outcomes import TurnStarted, TurnSuspended
from aion_core.engine.queues import WakeUp
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.callbacks import TOKEN_SECONDS, Callback, RemoteCallbacks, new_token
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.turn.wait import FIRST_NET_LOOK
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Message, Part
from aion_core.table import keys
from aion_core.table.times import milliseconds
from aion_core.table.writes import Delete
from tests.support.conversation import StoreConversation
from tests.support.stores import LEASE_SECONDS

KEY = "node/weather/0"
AWAITED = AwaitedCall(KEY, "weather", "remote-1", calls_back=True)


def is_in(at: datetime, pause: timedelta, chat: StoreConversation) -> bool:
    """Return True if the time is so far ahead. A clock may go on between two readings."""
    return abs(at - chat.clock.now() - pause) < timedelta(seconds=1)


class Called:
    """Turn that has called a remote agent with a callback."""

    def __init__(self, chat: StoreConversation) -> None:
        self.chat = chat
        self.work_queue = MemoryWorkQueue(chat.clock)
        self.callbacks = RemoteCallbacks(chat.store._table, self.work_queue, chat.clock, lease_seconds=LEASE_SECONDS)
        self.work_queue.handled_by(self._noted)
        self.woken: list[WakeUp] = []
        self.token = ""

    async def _noted(self, wake_up: WakeUp) -> None:
        self.woken.append(wake_up)

    async def begins(self, message_id: str = "m-1") -> TurnStarted:
        """Begin a turn and its call."""
        begun = await self.chat.starts(message_id)
        self.token, token_hash = new_token()
        call = RemoteCall(KEY, "weather", Message(message_id="r", parts=[Part(text="?")]), callback=token_hash)
        await self.chat.store.remote_calls.begin(begun.lease, call)
        await self.chat.store.remote_calls.reached(begun.head.key, KEY, "remote-1", calls_back=True)
        return begun

    async def suspends(self, begun: TurnStarted, *calls: AwaitedCall) -> TurnSuspended:
        _, suspended = await self.chat.store.suspend(
            begun.lease, begun.head, None, key="wait", calls=calls or (AWAITED,)
        )
        return suspended

    async def found(self) -> Callback:
        callback = await self.callbacks.find(self.token)
        assert callback is not None
        return callback


async def test_callback_moves_look_of_its_turn_to_now(chat: StoreConversation) -> None:
    called = Called(chat)
    suspended = await called.suspends(await called.begins())
    assert is_in(suspended.look_at, FIRST_NET_LOOK, chat)
    chat.clock.move(60)
    assert await called.callbacks.use(await called.found())
    moved = await chat.store.begin(chat.context, holder="holder-2")
    assert isinstance(moved, TurnSuspended)
    assert is_in(moved.look_at, timedelta(), chat)
    assert moved.wait.calls == (replace(AWAITED, calls_back=False),), "it is polled from now on"
    looked = await chat.store.look_at_calls(
        chat.context, look=milliseconds(moved.look_at), since=milliseconds(suspended.look_at - FIRST_NET_LOOK)
    )
    assert looked is not None
    await called.work_queue.quiet()
    assert [wake_up.look for wake_up in called.woken] == [milliseconds(moved.look_at)]
    assert is_in(looked.look_at, timedelta(seconds=30), chat)


async def test_token_works_once(chat: StoreConversation) -> None:
    called = Called(chat)
    await called.suspends(await called.begins())
    callback = await called.found()
    used = await asyncio.gather(*(called.callbacks.use(callback) for _ in range(4)))
    assert sorted(used) == [False, False, False, True]
    assert await called.callbacks.find(called.token) is None
    assert not await called.callbacks.use(callback)


async def test_token_expires(chat: StoreConversation) -> None:
    called = Called(chat)
    await called.begins()
    chat.clock.move(TOKEN_SECONDS + 1)
    assert await called.callbacks.find(called.token) is None


async def test_callback_before_suspension_is_not_expected_again(chat: StoreConversation) -> None:
    called = Called(chat)
    begun = await called.begins()
    assert await called.callbacks.use(await called.found())
    suspended = await called.suspends(begun)
    assert suspended.wait.calls == (replace(AWAITED, calls_back=False),)
    assert is_in(suspended.look_at, timedelta(seconds=5), chat)


async def test_turn_with_one_polled_call_is_polled(chat: StoreConversation) -> None:
    called = Called(chat)
    other = AwaitedCall("node/news/0", "news", "remote-2")
    suspended = await called.suspends(await called.begins(), AWAITED, other)
    assert is_in(suspended.look_at, timedelta(seconds=5), chat)


async def test_callback_of_ended_call_changes_nothing(chat: StoreConversation) -> None:
    called = Called(chat)
    begun = await called.begins()
    await chat.store.remote_calls.settle(begun.head.key, KEY, CallState.ENDED)
    assert await called.callbacks.use(await called.found())
    await chat.ends(begun)
    await chat.comes_to_rest()


async def test_callback_of_call_that_agent_did_not_accept_changes_nothing(chat: StoreConversation) -> None:
    called = Called(chat)
    begun = await called.begins()
    await chat.store.remote_calls.reached(begun.head.key, KEY, "remote-1")
    suspended = await called.suspends(begun, replace(AWAITED, calls_back=False))
    assert await called.callbacks.use(await called.found())
    assert await chat.store.begin(chat.context, holder="holder-2") == suspended


async def test_callback_after_cancellation_wakes_nothing(chat: StoreConversation) -> None:
    called = Called(chat)
    await called.suspends(await called.begins())
    await chat.cancels("t-m-1")
    next_turn = await chat.starts("m-2")
    assert await called.callbacks.use(await called.found())
    assert await chat.head("t-m-2") == next_turn.head


async def test_token_of_deleted_task_changes_nothing(chat: StoreConversation) -> None:
    called = Called(chat)
    begun = await called.begins()
    callback = await called.found()
    for key in (keys.call_key(begun.head.key, KEY), keys.context_key(chat.context)):
        await chat.store._table.write(Delete(key))
    assert await called.callbacks.use(callback)
    assert await chat.store._table.get(keys.context_key(chat.context)) is None
