"""Concurrent model calls and replies: one is streamed at a time, each as a whole or marked as aborted."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.errors import NodeTimeoutError
from langgraph.func import entrypoint
from langgraph.func import task as durable_task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, Send, interrupt

from aion_core.agents.langgraph.callbacks import LangChainCallbacks
from aion_core.agents.langgraph.model_streams import ModelStreams
from aion_core.engine.agent import Chunk
from tests.runtime.golden.graphs import ScriptedModel
from tests.support.clock import LoopClock
from tests.support.histories import json_before_status, json_messages_of
from tests.support.service import http, parts, send

State = dict[str, Any]


def chunk(text: str, call: str, *, last: bool = False, tool: bool = False) -> AIMessageChunk:
    calls = [tool_call_chunk(name="look", args="{}", id="1", index=0)] if tool else []
    return AIMessageChunk(content=text, id=call, chunk_position="last" if last else None, tool_call_chunks=calls)


END = "end of the message"


def texts(*spoken: list[Chunk]) -> list[tuple[str, str, bool]]:
    return [(said.message_id, END if said.ends else said.text, said.breaks_off) for chunks in spoken for said in chunks]


def test_thread_reply_is_buffered_while_model_streams() -> None:
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.add(chunk("m2", "model", last=True))),
        list(streams.add_reply("r2", "reply", namespace="")),
        list(streams.discard_reply("reply")),
    )
    assert streamed == [
        ("model", "m1 ", False),
        ("model", "m2", False),
        ("model", END, False),
        ("reply", "r1 ", False),
        ("reply", "r2", False),
        ("reply", END, False),
    ]
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.discard_reply("reply")),
        list(streams.add(chunk("m2", "model", last=True))),
    )
    assert streamed == [("model", "m1 ", False), ("model", "m2", False), ("model", END, False)]


def test_text_aborted_while_buffered_is_never_streamed() -> None:
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add(chunk("x1 ", "other"))),
        list(streams.abort("other")),
        list(streams.abort("reply")),
        list(streams.close_all()),
    )
    assert streamed == [("reply", "r1 ", False), ("reply", "", True), ("model", "m1 ", False)]


def test_last_complete_text_of_model_is_fallback_answer() -> None:
    """The fallback answer is the last complete model text; a reply is an answer of its own."""
    streams = ModelStreams({()})
    list(streams.add(chunk("kept", "one", last=True)))
    list(streams.add(chunk("cut", "two")))
    list(streams.abort("two"))
    list(streams.add_reply("a reply", "three", namespace=""))
    assert streams.last_text()[1] == "kept"


# ── Runs of nodes and tasks ───────────────────────────────────────────────────────────────────────────────────────────


class Piece(TypedDict):
    slow: bool


async def test_slower_of_two_parallel_runs_streams_its_whole_text() -> None:
    """`Send` runs one node several times; a run that ends does not close the stream of a slower run."""
    ended = asyncio.Event()

    class PausingModel(ScriptedModel):
        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            async for generated in super()._astream(*args, **kwargs):
                yield generated
                await ended.wait()
                for _ in range(100):  # let the server handle the end of the other run
                    await asyncio.sleep(0)

    slow, quick = PausingModel(scripts=[["slow ", "and ", "whole"]]), ScriptedModel(scripts=[["quick"]])

    async def work(state: Piece) -> State:
        await (slow if state["slow"] else quick).ainvoke("go")
        if not state["slow"]:
            ended.set()
        return {}

    graph = StateGraph(MessagesState).add_node("work", work, input_schema=Piece)
    graph.add_conditional_edges(START, lambda _: [Send("work", {"slow": slow}) for slow in (True, False)], ["work"])
    graph.add_node("join", lambda _: {"messages": [AIMessage("both")]}).add_edge("work", "join")
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method="message/stream"))
    events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    deltas = [event["artifact"]["parts"][0]["text"] for event in events if event["kind"] == "artifact-update"]
    recorded = [event["status"].get("message") for event in events if event["kind"] == "status-update"]
    assert deltas == ["slow ", "and ", "whole", "", "quick", ""]
    assert {each["parts"][0]["text"] for each in recorded if each} == {"slow and whole", "quick", "both"}


@pytest.mark.parametrize("functional", [True, False])
async def test_text_that_langgraph_task_streams_before_interrupt_is_recorded(functional: bool) -> None:
    """A LangGraph task streams a text before an interrupt and does not run again: the A2A task keeps the text."""
    model = ScriptedModel(scripts=[["A ", "draft."]])

    @durable_task
    async def write() -> str:
        return str((await model.ainvoke("go")).text)

    @entrypoint()
    async def agent(given: State) -> str:
        return f"{len(await write())} characters: {interrupt('Good?')}"

    async def node(state: MessagesState) -> State:
        return {"messages": [AIMessage(f"{len(await write())} characters: {interrupt('Good?')}")]}

    graph = agent if functional else StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        asked = (await client.post("/", json=send())).json()["result"]["task"]
        sent = send("yes", message_id="m-2", taskId=asked["id"])
        task = (await client.post("/", json=sent)).json()["result"]["task"]
    said = ["hi", "A draft.", "Good?", "yes", "8 characters: yes"]
    assert [each["parts"][0]["text"] for each in json_messages_of(task)] == said


@pytest.mark.parametrize("retried", [True, False])
async def test_partial_text_is_dropped_after_node_times_out(retried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph cancels a node at its timeout, then retries it or runs its error handler: the cut text is dropped."""
    loop_clock = LoopClock(monkeypatch)

    class Stuck(ScriptedModel):
        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            is_first = len(self.scripts) == 2
            async for generated in super()._astream(*args, **kwargs):
                yield generated
                if is_first:
                    loop_clock.move(3600)
                    await asyncio.Event().wait()

    model = Stuck(scripts=[["cut "], ["whole"]])

    async def answer(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("go")]}

    options: dict[str, Any] = {"error_handler": answer}
    if retried:
        options = {"retry_policy": RetryPolicy(initial_interval=0.001, retry_on=NodeTimeoutError)}
    graph: Any = StateGraph(MessagesState).add_node("answer", answer, timeout=3600, **options)
    async with http(parts(graph.add_edge(START, "answer")).app()) as client:
        answered = await client.post("/", json=send(method="message/stream"))
    events = [json.loads(line[6:])["result"] for line in answered.text.splitlines() if line.startswith("data: ")]
    deltas = [event["artifact"] for event in events if event["kind"] == "artifact-update"]
    assert [each["parts"][0]["text"] for each in deltas] == ["cut ", "", "whole", ""]
    assert deltas[1]["metadata"]["status_reason"] == "interrupted"
    recorded = [event["status"].get("message") for event in events if event["kind"] == "status-update"]
    assert [each["parts"][0]["text"] for each in recorded if each] == ["whole"]


@pytest.mark.parametrize("returned", [True, False])
async def test_emoji_split_between_two_chunks_is_restored(returned: bool) -> None:
    """A model streams the two halves of an emoji in two chunks: the turn answers with the emoji."""
    model = ScriptedModel(scripts=[["Fine \ud83d", "\ude00 \ud83d"]])

    async def answer(state: MessagesState) -> State:
        message = await model.ainvoke("go")
        return {"messages": [message]} if returned else {}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"][0]["text"] == "Fine \U0001f600 ?"


class Reporting(ScriptedModel):
    """Model that reports its words while it makes a whole message, without the message's id, as langchain-ollama does."""

    ours_last: bool = False

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        run_manager.handlers.sort(key=lambda each: isinstance(each, LangChainCallbacks) is self.ours_last)
        words = [*self._next_script()]
        for word in words:
            await run_manager.on_llm_new_token(word.text, chunk=ChatGenerationChunk(message=word))
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(word.text for word in words)))])


@pytest.mark.parametrize("ours_last", [False, True])
async def test_words_reported_without_id_are_one_message(ours_last: bool) -> None:
    """LangChain calls our handler before or after LangGraph's: in a subgraph their order is that of a set."""
    model = Reporting(scripts=[["A ", "draft."]], disable_streaming=True, ours_last=ours_last)

    async def write(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("go")]}

    graph = StateGraph(MessagesState).add_node("write", write).add_edge(START, "write")
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method="message/stream"))
    events = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    deltas = [event["artifact"] for event in events if event["kind"] == "artifact-update"]
    assert [each["parts"][0]["text"] for each in deltas] == ["A ", "draft.", ""]
    said = [event["status"]["message"] for event in events if "message" in event.get("status", {})]
    assert [(each["parts"][0]["text"], each["messageId"]) for each in said] == [
        ("A draft.", deltas[0]["metadata"]["messageId"])
    ]


class ModelPanic(BaseException):
    """Error that is no Exception, like the panics of libraries in Rust."""


@pytest.mark.parametrize("error", [ValueError("bad"), ModelPanic("bad")], ids=["exception", "panic"])
async def test_text_streamed_before_failing_node_is_in_history(error: BaseException) -> None:
    model = ScriptedModel(scripts=[["A ", "draft."]])

    async def write(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("go")]}

    async def fail(state: MessagesState) -> State:
        raise error

    graph = StateGraph(MessagesState).add_node("write", write).add_node("fail", fail)
    async with http(parts(graph.add_edge(START, "write").add_edge("write", "fail")).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert [each["parts"][0]["text"] for each in json_before_status(task)] == ["hi", "A draft."]
