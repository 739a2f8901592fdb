"""LangGraph graph that works for forty minutes, longer than a Lambda invocation may last. No key, no network.

Each run of a node is a step with a checkpoint. Before its invocation ends, the server hands the turn off to another
invocation, which continues after the last step.
"""

import asyncio
import os
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from aion.langgraph.stream import emit_task_metadata


def steps() -> int:
    """Return the number of steps of the job."""
    return int(os.environ.get("JOB_STEPS", "80"))


class JobState(MessagesState):
    """State of the graph: its messages, and the number of finished steps."""

    done: int


async def work(state: JobState) -> dict[str, Any]:
    """Do one step of the job, and report it."""
    await asyncio.sleep(float(os.environ.get("JOB_STEP_SECONDS", "30")))
    done = state.get("done", 0) + 1
    emit_task_metadata(get_stream_writer(), {"done": done, "of": steps()})
    return {"done": done}


async def finish(state: JobState) -> dict[str, Any]:
    """Answer, and reset the number of finished steps for the job of the next message."""
    return {"messages": [AIMessage(f"Done: {state['done']} steps.")], "done": 0}


def next_node(state: JobState) -> str:
    """Return `work` while steps remain, else `finish`."""
    return "work" if state["done"] < steps() else "finish"


builder = StateGraph(JobState).add_node("work", work).add_node("finish", finish)
builder.add_edge(START, "work").add_conditional_edges("work", next_node, ["work", "finish"]).add_edge("finish", END)
graph = builder.compile().with_config(recursion_limit=steps() + 10)
