"""What the adapter adds to each streamed chunk, in calls rather than in time, so that a busy machine changes nothing.

`make bench` has the microseconds; a call is a tenth of one, more or less.
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
BUDGET = 0.35 if sys.version_info < (3, 12) else 0.45
"""How much the adapter may add to the calls that LangGraph itself makes for a chunk.

LangChain asks at each chunk whether our callback is a coroutine function; from 3.12 on `inspect` makes 13 calls more of that.
"""


def calls(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """How many functions, of Python or of C, the run calls in this thread."""
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
    """How many calls a chunk makes: those of many chunks less those of a few."""
    calls(lambda: run(FEW))  # what is imported and cached on the way is no chunk's
    return (calls(lambda: run(MANY)) - calls(lambda: run(FEW))) / (MANY - FEW)


async def bare(chunks: int) -> None:
    given = {"messages": [HumanMessage("talk", id="m-1")]}
    async for _ in talking(chunks).astream(given, stream_mode=["values", "messages", "custom", "updates"]):
        pass


async def adapted(chunks: int) -> None:
    async for _ in LangGraphAgent(talking(chunks)).run(asked()):
        pass


def test_the_adapter_adds_a_fraction_of_the_calls_that_a_chunk_makes() -> None:
    alone, through = a_chunk(bare), a_chunk(adapted)
    print(f"a chunk: {alone:.1f} calls bare, {through - alone:.1f} more through the adapter")
    assert alone > 20  # or nothing was streamed
    assert through - alone <= BUDGET * alone
