"""Function calls added to each streamed chunk by the LangGraph adapter; unlike time, they are deterministic.

`make bench` measures the microseconds; a call takes about a tenth of one.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

from langchain_core.messages import HumanMessage

from aion_core.agents.langgraph.agent import LangGraphAgent
from tests.bench.chunks import asked
from tests.support.agents.counting import talking

FEW, MANY = 200, 700
BUDGET = 0.37 if sys.version_info < (3, 12) else 0.45
"""Maximum ratio of the adapter's calls for a chunk to LangGraph's own.

LangChain checks for a coroutine function in our callback at each chunk; from 3.12 on `inspect` makes 13 calls more.
"""


def calls(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Return the number of Python and C functions called by the run in this thread."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    async def profiled() -> None:
        sys.setprofile(profile)
        try:
            await run()
        finally:
            sys.setprofile(None)

    asyncio.run(profiled())
    return count


def a_chunk(run: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    """Return the calls of one chunk: those of many chunks minus those of a few."""
    calls(lambda: run(FEW))  # imports and caches belong to no chunk
    return (calls(lambda: run(MANY)) - calls(lambda: run(FEW))) / (MANY - FEW)


async def bare(chunks: int) -> None:
    given = {"messages": [HumanMessage("talk", id="m-1")]}
    async for _ in talking(chunks).astream(given, stream_mode=["values", "messages", "custom", "updates"]):
        pass


async def adapted(chunks: int) -> None:
    async for _ in LangGraphAgent(talking(chunks)).run(asked()):
        pass


def test_adapter_adds_few_calls_per_chunk() -> None:
    alone, through = a_chunk(bare), a_chunk(adapted)
    print(f"a chunk: {alone:.1f} calls bare, {through - alone:.1f} more through the adapter")
    assert alone > 20  # otherwise nothing was streamed
    assert through - alone <= BUDGET * alone
