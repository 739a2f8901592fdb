"""Graph with several steps. Each step writes its name to a file, emits a message, and waits.

`HELD_IN` names a step that never ends, so that a test can kill the process. `DRAINED_IN` names a step that ends only
after the runner has asked the turn to stop. With `STARTED_BY`, a step begins only when this file exists.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message

STEPS = ["one", "two", "three", "four"]


def step(name: str) -> Any:
    """Return the graph node of this step."""

    async def node(state: MessagesState, writer: StreamWriter, runtime: Runtime[None]) -> dict[str, Any]:
        while "STARTED_BY" in os.environ and not Path(os.environ["STARTED_BY"]).exists():
            await asyncio.sleep(0.02)
        with Path(os.environ["NOTED_IN"]).open("a") as notes:
            notes.write(f"{name}\n")
        emit_message(writer, AIMessage(f"did {name}"))
        while os.environ.get("DRAINED_IN") == name and not runtime.drain_requested:
            await asyncio.sleep(0.02)
        await asyncio.sleep(300 if os.environ.get("HELD_IN") == name else float(os.environ.get("STEP_SECONDS", "0.4")))
        return {"messages": [AIMessage(f"{name} is done")]}

    return node


def texts_of_steps() -> list[str]:
    """Return the texts of a whole turn, in order: each step emits one, and adds one to the state."""
    return [text for name in STEPS for text in (f"did {name}", f"{name} is done")]


builder = StateGraph(MessagesState)
for name in STEPS:
    builder.add_node(name, step(name))
for before, after in zip([START, *STEPS], STEPS, strict=False):
    builder.add_edge(before, after)
graph = builder.compile()
