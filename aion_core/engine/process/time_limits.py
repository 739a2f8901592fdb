"""Time limits by the clock of the service."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from aion_core.clock import Clock


async def within(
    clock: Clock, seconds: float | None, work: Coroutine[Any, Any, Any], leave: asyncio.Future[None] | None = None
) -> bool:
    """Await the work for at most these seconds of the clock's time (None for no limit), or until `leave` is done.

    Return True if the work has ended by itself; otherwise it is cancelled. Raises the error of the work.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:

            def stop(_: object = None) -> None:
                if limit.when() is None:
                    limit.reschedule(loop.time())

            timer = None if seconds is None else clock.call_later(seconds, stop)
            if leave is not None:
                leave.add_done_callback(stop)
            try:
                await work
            finally:
                if timer is not None:
                    timer.cancel()
                if leave is not None:
                    leave.remove_done_callback(stop)
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    return True
