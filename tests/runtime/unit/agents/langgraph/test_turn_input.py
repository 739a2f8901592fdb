"""Parts of a message that reach the graph, from both protocol versions."""

import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any, Optional, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.runtime import Runtime
from openai.types.chat import ChatCompletionMessageParam

from aion.langgraph import AionContext
from aion.shared.types import A2AInbox
from tests.support.service import http, parts

BOTH = pytest.mark.parametrize("method", ["SendMessage", "message/send"])


class HybridState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    a2a_inbox: Optional[A2AInbox]  # noqa: UP045  # as in the seed document


def request(method: str, *given: dict[str, Any], **message: Any) -> dict[str, Any]:
    """Return a request with these v1 parts, converted for the older version."""
    old = "/" in method
    texts = {"kind": "text"} if old else {}
    shown = [{**texts, **part} if "text" in part else part for part in given]
    if old:
        shown = [
            {"kind": "file", "file": {"uri": part["url"], "mimeType": part["mediaType"]}} if "url" in part else part
            for part in shown
        ]
        shown = [{"kind": "data", **part} if "data" in part else part for part in shown]
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {
            "message": {"messageId": "m-1", "role": "user" if old else "ROLE_USER", "parts": shown, **message},
            "metadata": {"trace": {"id": "t-7"}, "network": "slack"},
        },
    }


async def run(node: Any, body: dict[str, Any], schema: Any = MessagesState, **options: Any) -> dict[str, Any]:
    graph = StateGraph(schema, **options).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        result: dict[str, Any] = (await client.post("/", json=body)).json()["result"]
    task: dict[str, Any] = result.get("task", result)
    assert task["status"]["state"] in {"TASK_STATE_COMPLETED", "completed"}, task
    return task


TEXTS = (
    {"text": "one "},
    {"data": {"n": 1}},
    {"text": "two"},
    {"url": "https://x.test/a.png", "mediaType": "image/png"},
)


@BOTH
async def test_parts_become_content_of_human_message(method: str) -> None:
    """The graph's state has no inbox: images, files and data become content blocks of the message, in order."""
    seen: list[AnyMessage] = []

    def node(state: dict[str, Any]) -> dict[str, Any]:
        seen.extend(state["messages"])
        return {}

    await run(node, request(method, *TEXTS))
    content = [
        {"type": "text", "text": "one "},
        {"type": "text", "text": '{"n": 1}'},
        {"type": "text", "text": "two"},
        {"type": "image", "url": "https://x.test/a.png", "mime_type": "image/png"},
    ]
    assert [(type(message), message.content, message.id) for message in seen] == [(HumanMessage, content, "m-1")]


@BOTH
async def test_a2a_inbox_contains_message_task_and_metadata(method: str) -> None:
    seen: list[HybridState] = []

    def node(state: HybridState) -> dict[str, Any]:
        seen.append(state)
        return {}

    task = await run(node, request(method, *TEXTS, metadata={"mine": True}), HybridState)
    inbox = seen[0]["a2a_inbox"]
    assert inbox is not None
    assert [(message.content, message.id) for message in seen[0]["messages"]] == [("one two", "m-1")], "only the texts"
    assert (inbox.task.id, inbox.task.context_id) == (task["id"], task["contextId"])
    assert [part.WhichOneof("content") for part in inbox.message.parts] == ["text", "data", "text", "url"]
    assert dict(inbox.message.metadata) == {"mine": True}
    assert inbox.metadata == {"trace": {"id": "t-7"}, "network": "slack"}


async def test_runtime_context_has_thread_message_and_event() -> None:
    """Check the context of a node; LangGraph's thread_id is not the A2A context id."""
    seen: list[Any] = []

    async def node(state: MessagesState, runtime: Runtime[AionContext], config: RunnableConfig) -> dict[str, Any]:
        seen.extend([runtime.context, config["configurable"]["thread_id"]])
        return {}

    task = await run(node, request("SendMessage", *TEXTS), context_schema=AionContext)
    context, thread_id = seen
    assert context.thread.id == task["contextId"] != thread_id
    assert context.message.text == "one two"
    assert context.message.id == "m-1"
    assert context.event.kind == "message"
    assert context.self.id == "test"


async def test_thread_reply_is_answer_if_node_returns_nothing() -> None:
    """A node only calls `thread.reply` and returns nothing: the reply is the answer, without reserved metadata keys."""

    async def node(state: MessagesState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        inbound = runtime.context.message
        if inbound and inbound.text == "/help":
            await runtime.context.thread.reply("Here is what I can do.", metadata={"mine": 1, "aion:x": "forged"})
        return {}

    task = await run(node, request("SendMessage", {"text": "/help"}), context_schema=AionContext)
    message = task["status"]["message"]
    assert message["parts"][0]["text"] == "Here is what I can do."
    assert message["metadata"] == {"mine": 1}


@pytest.mark.parametrize("is_handled", [False, True])
async def test_partial_reply_is_dropped_if_its_stream_fails(is_handled: bool) -> None:
    async def broken() -> AsyncIterator[str]:
        yield "half an "
        raise ConnectionError("the model is gone")

    async def node(state: MessagesState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        try:
            await runtime.context.thread.reply(broken())
        except ConnectionError:
            if not is_handled:
                raise
        return {"messages": [AIMessage("Something went wrong; ask again.")]}

    graph = StateGraph(MessagesState, context_schema=AionContext).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=request("SendMessage", {"text": "hi"}))).json()["result"]["task"]
    assert "half an" not in str(task)
    if is_handled:
        assert task["status"]["message"]["parts"] == [{"text": "Something went wrong; ask again."}]
    else:
        assert task["status"]["state"] == "TASK_STATE_FAILED"


async def test_thread_provides_history_reactions_and_typing() -> None:
    seen: list[Any] = []

    async def node(state: MessagesState, runtime: Runtime[AionContext]) -> dict[str, Any]:
        thread, message = runtime.context.thread, runtime.context.message
        assert message is not None
        seen.extend(entry.text for entry in await thread.history())
        await thread.typing()
        await message.react("thumbsup")
        return {"messages": [AIMessage("done")]}

    task = await run(node, request("SendMessage", {"text": "hi"}), context_schema=AionContext)
    assert seen == ["hi"]
    (reaction,) = task["artifacts"]
    assert reaction["parts"][0]["data"] == {"key": "thumbsup", "messageId": "m-1"}


class Dicts(TypedDict):
    messages: list[dict[str, Any]]


class AddedDicts(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


class OpenAIDicts(TypedDict):
    messages: Annotated[list[ChatCompletionMessageParam], operator.add]


class ReducedDicts(TypedDict):
    messages: Annotated[list[dict[str, Any]], add_messages]


@pytest.mark.parametrize("schema", [Dicts, AddedDicts, OpenAIDicts])
async def test_state_of_dicts_gets_openai_messages(schema: Any) -> None:
    """A node passes such messages to a provider's own client, as OpenAI's."""
    seen: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        seen.append([*state["messages"]])
        answer = {"role": "assistant", "content": f"Answer {len(seen)}"}
        return {"messages": [answer] if schema is not Dicts else [*state["messages"], answer]}

    graph = StateGraph(schema).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        answers = []
        for number in ("one", "two"):
            body = request("SendMessage", {"text": number}, messageId=number, contextId="c-1")
            result = (await client.post("/", json=body)).json()["result"]
            answers.append(result["task"]["status"]["message"]["parts"][0]["text"])
    assert answers == ["Answer 1", "Answer 2"]
    first, second = ({"role": "user", "content": text} for text in ("one", "two"))
    earlier = [first, {"role": "assistant", "content": "Answer 1"}] if schema is not Dicts else []
    assert seen == [[first], [*earlier, second]]


async def test_image_for_state_of_dicts_has_openai_form() -> None:
    seen: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        seen.extend(state["messages"])
        return {"messages": [{"role": "assistant", "content": "A cat."}]}

    await run(node, request("SendMessage", {"text": "Who?"}, TEXTS[-1]), AddedDicts)
    image = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
    assert seen == [{"role": "user", "content": [{"type": "text", "text": "Who?"}, image]}]


async def test_reducer_add_messages_keeps_langchain_messages() -> None:
    seen: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        seen.extend(state["messages"])
        return {"messages": [AIMessage("Hello.")]}

    await run(node, request("SendMessage", {"text": "Hi."}), ReducedDicts)
    assert seen == [HumanMessage("Hi.", id="m-1")]


async def test_entrypoint_of_dicts_gets_openai_messages() -> None:
    @entrypoint()
    def agent(given: Dicts) -> str:
        return str(given["messages"])

    async with http(parts(agent).app()) as client:
        task = (await client.post("/", json=request("SendMessage", {"text": "Hi."}))).json()["result"]["task"]
    assert task["status"]["message"]["parts"] == [{"text": "[{'role': 'user', 'content': 'Hi.'}]"}]
