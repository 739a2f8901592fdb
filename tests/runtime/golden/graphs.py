"""Graphs of the golden transcripts: `plain_answer()` is the graph of `plain_answer.v1.sse` and `plain_answer.v03.sse`.

The graphs use no network, time or randomness. Only functions that need `aion` import it.
"""

import asyncio
import operator
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Any, TypedDict

from a2a.types import Artifact, Message, Part, Role, Task
from google.protobuf.json_format import ParseDict
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, StreamWriter, interrupt

Graph = CompiledStateGraph[Any, Any, Any, Any]
StreamItem = str | AIMessageChunk | Exception


class GoldenState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class ScriptedModel(BaseChatModel):
    """Chat model that streams one script per call, chunk by chunk; it raises the exceptions in a script."""

    scripts: list[list[Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        whole = AIMessageChunk(content="")
        for spoken in self._next_script():
            whole += spoken
        return ChatResult(generations=[ChatGeneration(message=AIMessage(whole.content, tool_calls=whole.tool_calls))])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for spoken in self._next_script():
            chunk = ChatGenerationChunk(message=spoken)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
            await asyncio.sleep(0)  # lets a parallel model stream a chunk

    def _next_script(self) -> Any:
        for spoken in self.scripts.pop(0):
            if isinstance(spoken, Exception):
                raise spoken
            yield AIMessageChunk(content=spoken) if isinstance(spoken, str) else spoken


def model_saying(*scripts: list[StreamItem]) -> ScriptedModel:
    return ScriptedModel(scripts=[list(script) for script in scripts])


def in_a_row(*nodes: Callable[..., Any], state: Any = GoldenState) -> Graph:
    """Return a graph that runs these nodes one after another."""
    graph = StateGraph(state)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    return graph.compile()


# ── Model output ──────────────────────────────────────────────────────────────────────────────────────────────────────


def plain_answer() -> Graph:
    model = model_saying(["Hello", " there", "."])

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return in_a_row(answer)


def two_model_calls() -> Graph:
    model = model_saying(["A first ", "draft."], ["The final ", "answer."])

    async def draft(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return in_a_row(draft, answer)


def events_while_speaking() -> Graph:
    """Graph: while its model streams, between two chunks, the node emits metadata, data and a message."""
    from aion.langgraph.stream import emit_data, emit_message, emit_task_metadata

    model = model_saying(["One", " two", " three."])

    async def answer(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        text = ""
        async for chunk in model.astream(state["messages"]):
            text += chunk.text
            if text == "One":
                emit_task_metadata(writer, {"progress": 50})
            if text == "One two":
                emit_data(writer, {"rows": 2}, name="rows")
                emit_message(writer, AIMessage("Counting.", id="my-notice"))
        return {"messages": [AIMessage(text)]}

    return in_a_row(answer)


def edited_message() -> Graph:
    """Graph: the node corrects the text of the streamed message, under the same message id."""
    model = model_saying(["Teh ", "answer."])

    async def answer(state: GoldenState) -> dict[str, Any]:
        said = await model.ainvoke(state["messages"])
        return {"messages": [said.model_copy(update={"content": "The answer."})]}

    return in_a_row(answer)


def edited_message_new_id() -> Graph:
    """Graph: the node streams a message, but returns a message with another id."""
    model = model_saying(["Teh ", "answer."])

    async def answer(state: GoldenState) -> dict[str, Any]:
        await model.ainvoke(state["messages"])
        return {"messages": [AIMessage("The answer.")]}

    return in_a_row(answer)


def returned_together() -> Graph:
    """Graph: one node returns two messages."""

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [AIMessage("The first."), AIMessage("The second.")]}

    return in_a_row(answer)


def failure() -> Graph:
    model = model_saying(["Half of ", "an ", ValueError("the database's password is hunter2")])

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return in_a_row(answer)


def side_by_side(*nodes: Callable[..., Any], join: Callable[..., Any], state: Any = GoldenState) -> Graph:
    """Return a graph that runs the nodes in parallel, and then `join`."""
    graph = StateGraph(state)
    graph.add_node(join.__name__, join)
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    graph.add_edge([node.__name__ for node in nodes], join.__name__)
    return graph.compile()


def parallel_branches() -> Graph:
    by_bus, by_train = model_saying(["By bus ", "in two hours."]), model_saying(["By train ", "in one."])

    async def bus(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await by_bus.ainvoke(state["messages"])]}

    async def train(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await by_train.ainvoke(state["messages"])]}

    async def choose(state: GoldenState) -> dict[str, Any]:
        return {"messages": [AIMessage("Take the train.")]}

    return side_by_side(bus, train, join=choose)


def sub_agent() -> Graph:
    finds, packs = model_saying(["Rain ", "tomorrow."]), model_saying(["An ", "umbrella."])

    async def find(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await finds.ainvoke(state["messages"])]}

    async def pack(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await packs.ainvoke(state["messages"])]}

    graph = StateGraph(GoldenState)
    graph.add_node("researcher", in_a_row(find))
    graph.add_node("pack", pack)
    graph.add_edge(START, "researcher")
    graph.add_edge("researcher", "pack")
    return graph.compile()


def retry() -> Graph:
    """Graph: the node emits, fails, and is retried."""
    from aion.langgraph.stream import emit_data, emit_message

    failures = [ConnectionError("the database's password is hunter2")]

    async def count(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessage("Counting."))
        emit_data(writer, {"left": 2}, name="seats")
        if failures:
            raise failures.pop()
        return {"messages": [AIMessage("Two are left.")]}

    graph = StateGraph(GoldenState)
    graph.add_node("count", count, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    graph.add_edge(START, "count")
    return graph.compile()


def retry_of_a_model_call() -> Graph:
    """Graph: the first model call fails in the middle of its text; the retried call streams the whole answer."""
    model = model_saying(["Half of ", ConnectionError("the database's password is hunter2")], ["The whole ", "answer."])

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(GoldenState)
    graph.add_node("answer", answer, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    graph.add_edge(START, "answer")
    return graph.compile()


# ── Tool calls ────────────────────────────────────────────────────────────────────────────────────────────────────────


def asks_for(name: str, args: str) -> AIMessageChunk:
    call = tool_call_chunk(name=name, args=args, id="call-1", index=0)
    return AIMessageChunk(content="", tool_call_chunks=[call])


def with_weather_tool(model: ScriptedModel) -> Graph:
    @tool
    async def weather(city: str) -> str:
        """Return the weather in a city."""
        return f"{city}: 21 degrees, sunny. Station key: 4711."

    async def agent(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(GoldenState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile()


def tool_call() -> Graph:
    """Graph: the model calls a tool without any text."""
    return with_weather_tool(model_saying([asks_for("weather", '{"city": "Riga"}')], ["It is ", "sunny."]))


def tool_call_with_words() -> Graph:
    """Graph: the model writes a text and calls a tool."""
    return with_weather_tool(
        model_saying(["Let me look.", asks_for("weather", '{"city": "Riga"}')], ["It is ", "sunny."])
    )


# ── Interrupts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def interrupt_and_resume() -> Graph:
    async def book(state: GoldenState) -> dict[str, Any]:
        day = interrupt("Which day?")
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    return in_a_row(book)


def interrupt_with_options() -> Graph:
    async def book(state: GoldenState) -> dict[str, Any]:
        day = interrupt({"prompt": "Which day?", "options": ["Monday", "Tuesday"]})
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    return in_a_row(book)


def parallel_interrupts() -> Graph:
    class BookingState(GoldenState):
        wanted: Annotated[list[str], operator.add]

    async def day(state: BookingState) -> dict[str, Any]:
        return {"wanted": [interrupt("Which day?")]}

    async def seat(state: BookingState) -> dict[str, Any]:
        return {"wanted": [interrupt("Which seat?")]}

    async def book(state: BookingState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Booked for {', '.join(state['wanted'])}.")]}

    return side_by_side(day, seat, join=book, state=BookingState)


def interrupt_then_speak() -> Graph:
    """Graph: after the client's answer to an interrupt, a model streams."""
    model = model_saying(["Booked for ", "Tuesday."])

    async def ask(state: GoldenState) -> dict[str, Any]:
        interrupt("Which day?")
        return {}

    async def confirm(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return in_a_row(ask, confirm)


def interrupt_while_speaking() -> Graph:
    """Graph: an interrupt comes in the middle of a streamed text."""
    from aion.langgraph.stream import emit_message

    async def book(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessageChunk(content="I could ", id="my-thought"))
        emit_message(writer, AIMessageChunk(content="book for", id="my-thought"))
        day = interrupt("Which day?")
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    return in_a_row(book)


def interrupt_after_emitting() -> Graph:
    """Graph: a node emits before its interrupt. After the client's answer LangGraph runs the node again."""
    from aion.langgraph.stream import emit_message

    async def book(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessage("Looking at the calendar."))
        day = interrupt("Which day?")
        return {"messages": [AIMessage(f"Booked for {day}.")]}

    return in_a_row(book)


def answer_before_a_question() -> Graph:
    """Graph: a model answers, then the next node interrupts."""
    model = model_saying(["Dear ", "all."])

    async def draft(state: GoldenState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def review(state: GoldenState) -> dict[str, Any]:
        interrupt("Shall I send it?")
        return {}

    async def send(state: GoldenState) -> dict[str, Any]:
        return {"messages": [AIMessage("Sent.")]}

    return in_a_row(draft, review, send)


# ── Emissions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def emit_file_url() -> Graph:
    from aion.langgraph.stream import emit_file

    async def report(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_file(writer, url="https://example.com/report.pdf", mime_type="application/pdf")
        return {"messages": [AIMessage("Here is the report.")]}

    return in_a_row(report)


def emit_file_in_chunks() -> Graph:
    from aion.langgraph.stream import emit_file

    async def export(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        first, second = "ZGF5LHNlYXRzCg==", "VHVlc2RheSwyCg=="  # "day,seats\n" and "Tuesday,2\n"
        emit_file(writer, base64=first, mime_type="text/csv", name="seats.csv", is_last_chunk=False)
        emit_file(writer, base64=second, mime_type="text/csv", name="seats.csv", append=True)
        return {"messages": [AIMessage("Here is the table.")]}

    return in_a_row(export)


def emit_data() -> Graph:
    from aion.langgraph.stream import emit_data

    async def analyse(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_data(writer, {"status": "success", "results": []}, name="analysis")
        emit_data(writer, [1, 2, 3])
        return {"messages": [AIMessage("Analysed.")]}

    return in_a_row(analyse)


def emit_message() -> Graph:
    from aion.langgraph.stream import emit_message

    async def look(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessage("Looking it up."))
        return {"messages": [AIMessage("Found it.")]}

    return in_a_row(look)


def emit_message_chunks() -> Graph:
    from aion.langgraph.stream import emit_message

    async def think(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessageChunk(content="Thinking ", id="my-thought"))
        emit_message(writer, AIMessageChunk(content="aloud.", id="my-thought"))
        return {"messages": [AIMessage("Forty-two.")]}

    return in_a_row(think)


def emit_message_chunks_alone() -> Graph:
    """Graph: the node emits message chunks, and the turn has no other output."""
    from aion.langgraph.stream import emit_message

    async def think(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessageChunk(content="Forty-", id="my-thought"))
        emit_message(writer, AIMessageChunk(content="two.", id="my-thought"))
        return {}

    return in_a_row(think)


def emit_message_chunks_without_id() -> Graph:
    from aion.langgraph.stream import emit_message

    async def think(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessageChunk(content="Think"))
        emit_message(writer, AIMessageChunk(content="ing."))
        return {}

    async def answer(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_message(writer, AIMessageChunk(content="The "))
        emit_message(writer, AIMessageChunk(content="answer."))
        return {}

    return in_a_row(think, answer)


def emit_task_metadata() -> Graph:
    from aion.langgraph.stream import emit_task_metadata

    async def work(state: GoldenState, writer: StreamWriter) -> dict[str, Any]:
        emit_task_metadata(writer, {"progress": 50, "aion:network": "forged"})
        emit_task_metadata(writer, {"aion:sender": "forged"})
        emit_task_metadata(writer, {"progress": 100, "stage": {"name": "done", "aion:trace": "forged"}})
        return {"messages": [AIMessage("Done.")]}

    return in_a_row(work)


def emit_functions_together() -> Graph:
    """Graph: a synchronous node calls all four emit functions; the emitted message is the turn's only text."""
    from aion.langgraph.stream import emit_data, emit_file, emit_message, emit_task_metadata

    def work(state: GoldenState, writer: StreamWriter) -> GoldenState:
        emit_file(writer, url="https://example.com/report.pdf", mime_type="application/pdf")
        emit_data(writer, {"status": "success", "results": []}, name="analysis")
        emit_message(writer, AIMessage(content="Processing complete"))
        emit_task_metadata(writer, {"progress": 100})
        return state

    return in_a_row(work)


# ── Replies: buffer, outbox, fallback ─────────────────────────────────────────────────────────────────────────────────


def reply() -> Graph:
    from aion.langgraph import AionContext

    async def answer(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply("Here is what I can do.")
        return {}

    return in_a_row(answer)


def reply_several_times() -> Graph:
    from aion.langgraph import AionContext

    async def answer(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply("One moment.")
        await runtime.context.thread.reply("Here it is.")
        return {}

    return in_a_row(answer)


def reply_from_an_iterator() -> Graph:
    from aion.langgraph import AionContext

    async def story() -> AsyncIterator[str]:
        yield "Once "
        yield "upon a time."

    async def answer(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply(story())
        return {}

    return in_a_row(answer)


def reply_from_an_iterator_that_raises() -> Graph:
    from aion.langgraph import AionContext

    async def story() -> AsyncIterator[str]:
        yield "Once "
        raise ValueError("the database's password is hunter2")

    async def answer(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply(story())
        return {}

    return in_a_row(answer)


def reply_that_breaks_off() -> Graph:
    """Graph: a reply streams from an iterator that raises; the node catches the exception."""
    from aion.langgraph import AionContext

    model = model_saying(["There was ", "a fox."])

    async def story() -> AsyncIterator[str]:
        yield "Once "
        raise ValueError("the database's password is hunter2")

    async def answer(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        with suppress(ValueError):
            await runtime.context.thread.reply(story())
        return {"messages": [await model.ainvoke(state["messages"])]}

    return in_a_row(answer)


def replies_at_once() -> Graph:
    """Graph: two parallel nodes stream replies at the same time."""
    from aion.langgraph import AionContext

    bus_has_begun, train_has_begun, bus_is_said = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def by_bus() -> AsyncIterator[str]:
        yield "By bus "
        bus_has_begun.set()
        await train_has_begun.wait()
        yield "in two hours."

    async def by_train() -> AsyncIterator[str]:
        await bus_has_begun.wait()
        yield "By train "
        train_has_begun.set()
        await bus_is_said.wait()
        yield "in one."

    async def bus(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply(by_bus())
        bus_is_said.set()
        return {}

    async def train(state: GoldenState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply(by_train())
        return {}

    async def arrive(state: GoldenState) -> dict[str, Any]:
        return {}

    return side_by_side(bus, train, join=arrive)


def reply_over_outbox() -> Graph:
    """Graph: a turn has a reply, an outbox and a message in the state; the reply is the answer."""
    from aion.langgraph import AionContext
    from aion.shared.types import A2AOutbox

    class WithOutbox(GoldenState):
        a2a_outbox: A2AOutbox | None

    async def answer(state: WithOutbox, runtime: Runtime[AionContext]) -> dict[str, Any]:
        await runtime.context.thread.reply("From the buffer.")
        patch = Task(
            history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="From the outbox.")])],
            artifacts=[Artifact(artifact_id="my-seats", name="seats", parts=[Part(text="Two are left.")])],
            metadata={"my_key": "my_value"},
        )
        return {"a2a_outbox": A2AOutbox(task=patch), "messages": [AIMessage("From the state.")]}

    return in_a_row(answer, state=WithOutbox)


def outbox_message() -> Graph:
    from aion.shared.types import A2AOutbox

    class WithOutbox(GoldenState):
        a2a_outbox: A2AOutbox | None

    async def answer(state: WithOutbox) -> dict[str, Any]:
        message = Message(
            role=Role.ROLE_AGENT,
            parts=[Part(text="Two seats are left."), ParseDict({"data": {"seats": 2}}, Part())],
            task_id="forged",
            context_id="forged",
            metadata={"my_key": "my_value", "aion:network": "forged"},
        )
        return {"a2a_outbox": A2AOutbox(message=message), "messages": [AIMessage("From the state.")]}

    return in_a_row(answer, state=WithOutbox)


def outbox_task() -> Graph:
    from aion.shared.types import A2AOutbox

    class WithOutbox(GoldenState):
        a2a_outbox: A2AOutbox | None

    async def answer(state: WithOutbox) -> dict[str, Any]:
        patch = Task(
            id="forged",
            context_id="forged",
            history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="Two seats are left.")])],
            artifacts=[Artifact(artifact_id="my-seats", name="seats", parts=[Part(text="2 A, 2 B")])],
            metadata={"my_key": "my_value", "aion:network": "forged"},
        )
        return {"a2a_outbox": A2AOutbox(task=patch), "messages": [AIMessage("From the state.")]}

    return in_a_row(answer, state=WithOutbox)


def fallback() -> Graph:
    """Graph: two nodes add a message to the state, without streaming and without aion's functions."""

    async def plan(state: GoldenState) -> dict[str, Any]:
        return {"messages": [AIMessage("I shall say hello.")]}

    async def answer(state: GoldenState) -> dict[str, Any]:
        return {"messages": [AIMessage("Hello.")]}

    return in_a_row(plan, answer)
