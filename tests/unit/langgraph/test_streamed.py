"""Text that a node streamed and did not return: kept for the same turn in another process, and for no other."""

from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from aion_core.agents.langgraph.thread import Streamed


def streamed(saver: InMemorySaver, turn: str) -> Streamed:
    config: RunnableConfig = {"configurable": {"thread_id": "c"}, "metadata": {"run_id": turn}}
    return Streamed(saver, config, returns=True)


async def test_streamed_text_is_of_its_turn_only() -> None:
    saver, first = InMemorySaver(), uuid4()
    one = streamed(saver, "turn-1")
    one.began_to_stream(first)
    one.ended(first, AIMessage("text of turn 1"))
    await one.keep()
    assert await streamed(saver, "turn-1").earlier() == "text of turn 1"
    assert await streamed(saver, "turn-2").earlier() == "", "not the answer of the turn before"
