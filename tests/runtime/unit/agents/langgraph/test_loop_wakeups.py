"""Wake-ups of the event loop: a call from its own task needs none, any other call gets one."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from aion_core.agents.langgraph.loop_wakeups import skip_own_wakeups

GIVEN: ContextVar[str] = ContextVar("given", default="")


@pytest.fixture
async def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of bytes that woke up the running loop, one by one."""
    loop: Any = asyncio.get_running_loop()
    found: list[int] = []
    wake_up = loop._write_to_self

    def counted() -> None:
        found.append(1)
        wake_up()

    monkeypatch.setattr(loop, "_write_to_self", counted)
    skip_own_wakeups()
    skip_own_wakeups()  # a later turn in the same loop
    return found


async def called(call: Callable[[Callable[[], None]], object]) -> str:
    """Return the context variable that the callback sees, once it was called in the loop."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    call(lambda: seen.set_result(GIVEN.get()))
    return await asyncio.wait_for(seen, 10)


async def test_own_task_does_not_wake_up_its_loop(woken: list[int]) -> None:
    loop = asyncio.get_running_loop()
    GIVEN.set("of the task")
    assert await called(loop.call_soon_threadsafe) == "of the task"
    assert woken == []


async def test_other_thread_wakes_up_the_loop(woken: list[int]) -> None:
    loop = asyncio.get_running_loop()
    await called(lambda back: threading.Timer(0.05, loop.call_soon_threadsafe, (back,)).start())
    assert woken == [1]


async def test_loop_of_other_thread_wakes_up_the_loop(woken: list[int]) -> None:
    loop = asyncio.get_running_loop()

    async def elsewhere(back: Callable[[], None]) -> None:
        await asyncio.sleep(0.05)
        loop.call_soon_threadsafe(back)

    await called(lambda back: threading.Thread(target=asyncio.run, args=(elsewhere(back),)).start())
    assert woken == [1]


async def test_signal_handler_wakes_up_the_waiting_loop(woken: list[int]) -> None:
    loop = asyncio.get_running_loop()

    def arrange(back: Callable[[], None]) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(back))
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()

    before = signal.getsignal(signal.SIGUSR1)
    try:
        await called(arrange)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert woken == [1]


async def test_callback_outside_of_a_task_wakes_up_the_loop(woken: list[int]) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def arrange(back: Callable[[], None]) -> None:
            def readable() -> None:
                loop.remove_reader(ours)
                loop.call_soon_threadsafe(back)

            loop.add_reader(ours, readable)
            theirs.send(b"1")

        await called(arrange)
    assert woken == [1]
