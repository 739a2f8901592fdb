"""Code of an agent's author without type errors. The first graph is from the seed document."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from a2a.types import Message, Part, Role, Task
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langgraph.graph import START, StateGraph, add_messages
from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from aion.langgraph import AgentIdentity, AionContext, Event, Thread, create_event_router, get_aion_context
from aion.langgraph import Message as AgentMessage
from aion.langgraph.stream import emit_data, emit_file, emit_message, emit_task_metadata
from aion.shared.types import A2AInbox, A2AOutbox


class TypedState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def node(state: TypedState, runtime: Runtime[AionContext]) -> dict[str, Any]:
    inbound = runtime.context.message
    thread = runtime.context.thread

    if inbound and inbound.text == "/help":
        await thread.reply("Here is what I can do.")
        return {}

    return {}


class Hybrid(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    a2a_inbox: A2AInbox | None
    a2a_outbox: A2AOutbox | None


def hybrid(state: Hybrid, writer: StreamWriter) -> dict[str, A2AOutbox]:
    inbox = state["a2a_inbox"]
    task: Task | None = inbox.task if inbox else None
    emit_file(writer, url="https://example.com/report.pdf", mime_type="application/pdf")
    emit_file(writer, base64="AAA=", mime_type="image/png", name="a.png", append=True, artifact_id="a")
    emit_data(writer, {"status": "success"}, name="analysis")
    emit_data(writer, [1, None], "rows", True, False, artifact_id="rows")
    emit_message(writer, AIMessage(content="Processing complete"))
    emit_message(writer, AIMessageChunk(content="Proc"))
    emit_task_metadata(writer, {"progress": 100, "task": task.id if task else None})
    if task:
        return {"a2a_outbox": A2AOutbox(task=Task(history=[], metadata={"my_key": "my_value"}))}
    return {"a2a_outbox": A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")]))}


async def words() -> AsyncIterator[str]:
    yield "Hel"
    yield "lo"


async def fluent(state: TypedState, runtime: Runtime[AionContext]) -> dict[str, Any]:
    thread: Thread = runtime.context.thread
    event: Event = get_aion_context().event
    me: AgentIdentity = runtime.context.self
    await thread.typing()
    await thread.reply(words(), metadata={"by": me.id})
    await thread.reply(Message(parts=[Part(text="raw")]))
    await thread.reply({"parts": [{"text": "raw"}]})
    await thread.post("elsewhere", target=thread.default_reply_target)
    earlier: list[AgentMessage] = await thread.history(limit=5, before=None)
    for said in earlier:
        await said.react("eyes")
        await said.reply(f"{said.user.id}, {event.kind}, {event.payload.get('name')}")
    return {}


async def on_message(message: AgentMessage, thread: Thread) -> dict[str, Any]:
    await thread.reply(message.text)
    return {}


graph = StateGraph(TypedState, context_schema=AionContext)
graph.add_node("node", node)
graph.add_node("fluent", fluent)
graph.add_node("router", create_event_router(on_message=on_message, default=dict))
graph.add_edge(START, "node")
compiled = graph.compile()
hybrids = StateGraph(Hybrid).add_node("hybrid", hybrid).add_edge(START, "hybrid").compile()
