"""Wake-ups of the event loop, which LangGraph requests for each streamed chunk."""

import asyncio
from typing import Any


def skip_own_wakeups() -> None:
    """Let `call_soon_threadsafe` of the running loop skip the wake-up if a task of this loop calls it.

    LangGraph streams each chunk of a model by this method, mostly in the loop's own thread. To wake up the loop takes
    two system calls, a tenth of a chunk's CPU time, and a loop that runs a task is awake. Only asyncio's own loops are
    changed.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop) or "call_soon_threadsafe" in vars(loop):
        return
    wake_up, running_loop, running_task = loop.call_soon_threadsafe, asyncio._get_running_loop, asyncio.current_task

    def call_soon_threadsafe(callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        # A signal handler runs in the thread of the loop, but outside of a task while the loop waits.
        if running_loop() is loop and running_task() is not None:
            return loop.call_soon(callback, *args, context=context)
        return wake_up(callback, *args, context=context)

    loop.call_soon_threadsafe = call_soon_threadsafe  # type: ignore[method-assign, assignment]
