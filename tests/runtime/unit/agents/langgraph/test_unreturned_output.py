"""Streamed text that no node returns: it is stored for a process that resumes this turn, not for other turns."""

from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from aion_core.agents.langgraph.unreturned_output import StreamedText, UnreturnedOutput


def streamed(saver: InMemorySaver, turn: str) -> UnreturnedOutput:
    config: RunnableConfig = {"configurable": {"thread_id": "c"}, "metadata": {"run_id": turn}}
    return UnreturnedOutput(lambda: saver, config, returns=True)


async def test_turn_does_not_load_text_streamed_by_earlier_turn() -> None:
    saver, first = InMemorySaver(), uuid4()
    one = streamed(saver, "turn-1")
    one.start(first, "node:1")
    one.complete(first, AIMessage("text of turn 1", id="call"))
    await one.store()
    assert await streamed(saver, "turn-1").load_earlier() == StreamedText("text of turn 1", "call", "node:1/0")
    assert await streamed(saver, "turn-2").load_earlier() is None, "not the answer of the turn before"
