"""Graphs with emitting, interrupting and working nodes that record their work."""

import asyncio
import operator
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypedDict, cast

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import StreamWriter, interrupt

from aion.langgraph import get_aion_context
from aion.langgraph.stream import emit_data, emit_message, emit_task_metadata
from aion.shared.types import A2AOutbox
from aion_core.protocol.types import Artifact, Message, Part, Role, Task


class RowState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    trail: Annotated[list[str], operator.add]
    a2a_outbox: A2AOutbox | None


class Structured(RowState):
    structured_response: dict[str, int]


class Output(TypedDict):
    report: str


class Reporting(RowState):
    report: str


class TrailOnlyState(TypedDict):
    trail: Annotated[list[str], operator.add]


class Words(BaseChatModel):
    """Model that streams a text word by word; with a tool, it first calls the tool."""

    text: str
    calls: bool = False
    work: Any = None

    @property
    def _llm_type(self) -> str:
        return "words"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        said = f"call {sum(isinstance(message, AIMessage) for message in messages)}"
        if self.work is not None:
            self.work.run(said)
        if self.calls and not isinstance(messages[-1], ToolMessage):
            call = tool_call_chunk(name="weather", args="{}", id="call-1", index=0)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))
        else:
            for word in self.text.split():
                yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        whole = AIMessageChunk(content="")
        async for chunk in self._astream(messages):
            whole = cast("AIMessageChunk", whole + chunk.message)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(whole.content, tool_calls=whole.tool_calls))])


class Work:
    """Record of the nodes that have run; a node may also request a drain of its process."""

    def __init__(self, *, drains: bool = False) -> None:
        self.done: Counter[str] = Counter()
        self.drain = asyncio.Event()
        self._drains = drains

    def run(self, name: str) -> None:
        self.done[name] += 1
        if self._drains:
            self.drain.set()

    def node(self, name: str, act: Callable[..., Any] | None = None) -> Any:
        async def node(_: Any, writer: StreamWriter) -> Any:
            returned = await act(writer) if act is not None else {}
            self.run(name)
            return {"trail": [name], **(returned or {})}

        return node

    def row(self, schema: Any, *nodes: tuple[str, Any], output: Any = None) -> Any:
        builder: Any = StateGraph(schema, output_schema=output)
        before = START
        for name, act in nodes:
            builder.add_node(name, act if hasattr(act, "stream_mode") else self.node(name, act))
            builder.add_edge(before, name)
            before = name
        return builder.compile()


# ── Steps of nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


async def says(writer: StreamWriter) -> Any:
    emit_message(writer, AIMessage("on the way"))
    emit_message(writer, AIMessage("further on"))
    emit_task_metadata(writer, {"progress": 50})


async def sends(writer: StreamWriter) -> Any:
    emit_data(writer, {"n": 1}, name="rows")
    emit_data(writer, {"n": 2}, name="rows", append=True)


async def replies(_: StreamWriter) -> Any:
    thread = get_aion_context().thread
    await thread.reply("one")

    async def words() -> AsyncIterator[str]:
        for word in ("t", "w", "o"):
            yield word

    await thread.reply(words())


async def streams(_: StreamWriter) -> Any:
    """Stream a model's text from a node that returns nothing."""
    await Words(text="only streamed").ainvoke("go")


async def emits_chunks(writer: StreamWriter) -> Any:
    for word in ("only ", "emitted"):
        emit_message(writer, AIMessageChunk(content=word, id="chunks"))


async def answers(_: StreamWriter) -> Any:
    return {"messages": [await Words(text="the answer").ainvoke("go")]}


async def last_word(_: StreamWriter) -> Any:
    return {"messages": [AIMessage("the last word")]}


async def structures(_: StreamWriter) -> Any:
    return {"structured_response": {"celsius": 21}}


async def returns_together(_: StreamWriter) -> Any:
    return {"messages": [AIMessage("the first"), AIMessage("the second")]}


async def plans(_: StreamWriter) -> Any:
    return {"messages": [AIMessage("a plan")]}


async def reports(_: StreamWriter) -> Any:
    return {"report": "the report"}


async def calls_tool(_: StreamWriter) -> Any:
    return {"messages": [AIMessage("", tool_calls=[{"name": "mail", "args": {}, "id": "call-1"}])]}


async def mails(_: StreamWriter) -> Any:
    return {"messages": [ToolMessage("the mail was sent", tool_call_id="call-1")]}


async def leaves_outbox(_: StreamWriter) -> Any:
    patch = Task(
        history=[Message(role=Role.ROLE_AGENT, parts=[Part(text=text)]) for text in ("before it", "from the outbox")],
        artifacts=[Artifact(name="report", parts=[Part(text="half of it")])],
    )
    return {"a2a_outbox": A2AOutbox(task=patch)}


def asks(*questions: str) -> Callable[..., Any]:
    async def act(writer: StreamWriter) -> Any:
        emit_message(writer, AIMessage(f"before {questions[0]}"))
        await get_aion_context().thread.reply(f"wait for {questions[0]}")
        heard = [interrupt(question) for question in questions]
        return {"messages": [AIMessage(f"heard {heard}")], "trail": heard}

    return act


async def just_asks(_: StreamWriter) -> Any:
    return {"trail": [interrupt("which?")]}


# ── Graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def four_nodes(work: Work) -> Any:
    return work.row(RowState, ("says", says), ("sends", sends), ("answers", answers), ("ends", None))


def replying(work: Work) -> Any:
    return work.row(RowState, ("says", says), ("replies", replies), ("answers", answers))


def streaming(work: Work) -> Any:
    """Return a graph whose streamed answer is not in the state: a model streams, then other nodes run."""
    return work.row(TrailOnlyState, ("streams", streams), ("ends", None), ("then", None))


def streaming_into_messages(work: Work) -> Any:
    return work.row(RowState, ("streams", streams), ("ends", None))


def streaming_twice(work: Work) -> Any:
    """Return a graph that streams two texts before its answer: one outside the state, one in the state."""
    return work.row(RowState, ("streams", streams), ("answers", answers), ("then", None), ("ends", last_word))


def emitting_chunks(work: Work) -> Any:
    return work.row(TrailOnlyState, ("chunks", emits_chunks), ("ends", None))


def with_outbox(work: Work) -> Any:
    return work.row(RowState, ("leaves", leaves_outbox), ("ends", None))


def nested(work: Work) -> Any:
    inner = work.row(RowState, ("says", says), ("sends", sends), ("answers", answers))
    return work.row(RowState, ("plans", None), ("sub", inner), ("ends", None))


def streaming_within(work: Work) -> Any:
    inner = work.row(TrailOnlyState, ("streams", streams), ("then", None))
    return work.row(TrailOnlyState, ("sub", inner), ("ends", None))


def structured_within(work: Work) -> Any:
    """Return a graph whose answer is only in the state of its subgraph."""
    inner = work.row(Structured, ("structures", structures), ("then", None))
    return work.row(RowState, ("sub", inner), ("ends", None))


def returning_together(work: Work) -> Any:
    return work.row(RowState, ("returns", returns_together), ("ends", None))


def returning_within(work: Work) -> Any:
    inner = work.row(RowState, ("returns", returns_together), ("then", None))
    return work.row(RowState, ("sub", inner), ("ends", None))


def planning(work: Work) -> Any:
    """Return a graph that adds messages to its state, with and without a model, and emits one between them."""
    return work.row(RowState, ("plans", plans), ("says", says), ("answers", answers), ("ends", last_word))


def declaring(work: Work) -> Any:
    """Return a graph that declares its output, after it has streamed a text and added a message."""
    nodes = (("streams", streams), ("plans", plans), ("reports", reports), ("ends", None))
    return work.row(Reporting, *nodes, output=Output)


def ending_with_a_tool(work: Work) -> Any:
    return work.row(RowState, ("calls", calls_tool), ("mails", mails), ("ends", None))


def parallel(work: Work) -> Any:
    builder: Any = StateGraph(RowState)
    acts = {"a": says, "b": replies, "c": sends}
    for name, act in acts.items():
        builder.add_node(name, work.node(name, act))
        builder.add_edge(START, name)
    builder.add_node("end", work.node("end"))
    builder.add_edge([*acts], "end")
    return builder.compile()


def tool_loop(work: Work) -> Any:
    def weather() -> str:
        """Tell the weather."""
        work.run("weather")
        return "sunny"

    return create_agent(Words(text="It is sunny.", calls=True, work=work), [weather])


def functional(work: Work) -> Any:
    @task
    async def step(name: str) -> str:
        work.run(name)
        emit_data(get_stream_writer(), {"n": 1}, name=name)
        return name

    @entrypoint()
    async def graph(given: Any, writer: StreamWriter) -> list[Any]:
        emit_message(writer, AIMessage("on the way"))
        return [AIMessage(await step("one") + await step("two"))]

    return graph


def asking(work: Work) -> Any:
    return work.row(RowState, ("says", says), ("asks", asks("which?")), ("sends", sends), ("ends", None))


def answering_then_asking(work: Work) -> Any:
    """Return a graph that answers, then interrupts in the same turn."""
    return work.row(RowState, ("answers", answers), ("asks", just_asks), ("sends", sends), ("ends", None))


def answering_beside_asking(work: Work) -> Any:
    builder: Any = StateGraph(RowState)
    for name, act in {"a": answers, "x": just_asks}.items():
        builder.add_node(name, work.node(name, act))
        builder.add_edge(START, name)
    builder.add_node("end", work.node("end"))
    builder.add_edge(["a", "x"], "end")
    return builder.compile()


def asking_within(work: Work) -> Any:
    inner = work.row(RowState, ("asks", asks("which?", "sure?")), ("sends", sends))
    return work.row(RowState, ("says", says), ("sub", inner), ("answers", answers))


def asking_then_streaming(work: Work) -> Any:
    """Return a graph that interrupts, then streams an answer that it does not add to its state."""
    inner = work.row(TrailOnlyState, ("asks", asks("which?")), ("streams", streams), ("ends", None))
    return work.row(TrailOnlyState, ("sub", inner), ("then", None))


def asking_deep_within(work: Work) -> Any:
    return work.row(
        RowState, ("sub", work.row(RowState, ("inner", work.row(RowState, ("asks", asks("which?", "sure?"))))))
    )


def asking_in_a_tool(work: Work) -> Any:
    """Return a graph whose tool runs another graph with an interrupt; LangGraph does not see that interrupt."""
    inner = work.row(RowState, ("asks", asks("which?", "sure?")), ("sends", sends))

    async def weather() -> str:
        """Tell the weather."""
        return str((await inner.ainvoke({"messages": []}))["messages"][-1].text)

    return create_agent(Words(text="It is sunny.", calls=True, work=work), [weather])


def reviewed(work: Work) -> Any:
    def weather() -> str:
        """Tell the weather."""
        work.run("weather")
        return "sunny"

    review: Any = HumanInTheLoopMiddleware(interrupt_on={"weather": {"allowed_decisions": ["approve", "reject"]}})
    return create_agent(Words(text="It is sunny.", calls=True, work=work), [weather], middleware=[review])


def asking_side_by_side(work: Work) -> Any:
    builder: Any = StateGraph(RowState)
    for name in ("x", "y"):
        builder.add_node(name, work.node(name, asks(f"{name}?")))
        builder.add_edge(START, name)
    builder.add_node("z", work.node("z", sends))
    builder.add_edge(START, "z")
    builder.add_node("end", work.node("end"))
    builder.add_edge(["x", "y", "z"], "end")
    return builder.compile()


ANSWERS = {"which?": "the red one", "sure?": "yes", "x?": "one", "y?": "two"}
ANSWERS["May the agent call weather()? Answer approve or reject."] = "approve"

GRAPHS: dict[str, Callable[[Work], Any]] = {
    graph.__name__: graph
    for graph in (
        four_nodes,
        replying,
        streaming,
        streaming_into_messages,
        streaming_twice,
        emitting_chunks,
        with_outbox,
        nested,
        streaming_within,
        structured_within,
        returning_together,
        returning_within,
        planning,
        declaring,
        ending_with_a_tool,
        parallel,
        tool_loop,
        functional,
        asking,
        answering_then_asking,
        answering_beside_asking,
        asking_within,
        asking_then_streaming,
        asking_deep_within,
        asking_in_a_tool,
        reviewed,
        asking_side_by_side,
    )
}
"""Graphs by name; those named `asking…` ask the client, whose answers are in `ANSWERS`."""
