"""ADK agent that works for `WORK_SECONDS` in a tool, then answers. It is called by the agents of `delegating.py`."""

import asyncio
import os
from typing import Any

from google.adk.agents import Agent

from tests.support.adk import DecidingLlm, call


async def work() -> str:
    """Work for a while."""
    await asyncio.sleep(float(os.environ["WORK_SECONDS"]))
    return "done"


def decide(seen: list[str]) -> list[Any]:
    return ["I ", "worked."] if any("work -> " in line for line in seen) else ["I begin. ", call("work")]


worker = Agent(name="worker", model=DecidingLlm(decide=decide), tools=[work])
