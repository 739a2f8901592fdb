"""Event loops of the threads in which LangGraph runs synchronous and asynchronous nodes."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop running in this thread, or None if there is no loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a new event loop and return its result. Use a new thread if this one has a running loop."""
    if running_loop() is None:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()
