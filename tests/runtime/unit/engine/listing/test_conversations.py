"""GetContext and GetContexts over JSON-RPC, and an author's `thread.history`."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest

from aion_core.clock import SystemClock
from aion_core.engine.agent_options import AnswerAs, ReplyAs
from aion_core.engine.call import CallContext
from aion_core.engine.listing import conversations
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.task_list import ListCursor, ListedTasks, TaskFilter
from aion_core.engine.records import Log
from aion_core.errors import ContextNotFound, StoreCorrupt
from aion_core.table.keys import ContextKey, TaskKey
from tests.runtime.unit.engine.teller import Teller
from tests.runtime.unit.engine.wire import WireClient, texts
from tests.support.agents.scripted import GatedAgent
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import ServiceParts, http, parts, send_task
from tests.support.stores import MemoryTaskList, MemoryTaskStore, dynamodb_list, dynamodb_store, new_owner

NOT_FOUND, PARAMS, VERSION = -32001, -32602, -32009


@dataclass
class ConversationClient:
    """A client of the app, and the app's parts."""

    http: httpx.AsyncClient
    made: ServiceParts
    clock: ManualClock

    async def say(self, text: str, *, context_id: str = "c", **message: Any) -> dict[str, Any]:
        """Send a message a second after the last one."""
        self.clock.move(1)
        message_id = f"m-{text}-{context_id}".replace(" ", "-")
        return (await WireClient(self.http, "1.0").send(text, message_id=message_id, contextId=context_id, **message))[
            1
        ]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await WireClient(self.http, "1.0").call(method, **params)

    async def context(self, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = (await self.call("GetContext", **{"contextId": "c", **params}))["result"]
        assert result.keys() == {"contextId", "history", "artifacts", "status"}
        return result

    async def said(self, **params: Any) -> list[str]:
        history = (await self.context(**params))["history"]
        return [text for message in history for text in texts(message["parts"])]


async def a_desk(clock: ManualClock, **options: Any) -> AsyncIterator[ConversationClient]:
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, task_list=MemoryTaskList(store), **options)
    async with http(made.app()) as client:
        yield ConversationClient(client, made, clock)


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[ConversationClient]:
    async for desk in a_desk(clock):
        yield desk


# ── GetContext ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_get_context_returns_messages_of_all_tasks(desk: ConversationClient) -> None:
    """The oldest message is first; the conversation's status is that of the newest task."""
    await desk.say("hi")
    await desk.say("chunks meanwhile file")
    await desk.say("elsewhere", context_id="another")
    await desk.say("asks")
    found = await desk.context()
    assert found["contextId"] == "c"
    assert [texts(message["parts"])[0] for message in found["history"]] == [
        "hi",
        "answer to hi",
        "chunks meanwhile file",
        "one moment",
        "answer to chunks meanwhile file",
        "asks",
        "which?",
    ]
    assert [artifact["artifactId"] for artifact in found["artifacts"]] == ["file"], "no stream delta"
    assert found["status"].keys() == {"state", "timestamp"}
    assert found["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert {message["role"] for message in found["history"]} == {"ROLE_USER", "ROLE_AGENT"}


async def test_v03_context_method_returns_v03_format(desk: ConversationClient) -> None:
    """The method's name selects the version; params may be spelled as in either version."""
    await desk.say("file")
    found = (await desk.call("context/get", context_id="c", history_length=1))["result"]
    (message,) = found["history"]
    assert (message["kind"], message["role"]) == ("message", "agent")
    assert message["parts"] == [{"kind": "text", "text": "answer to file"}]
    (artifact,) = found["artifacts"]
    assert artifact["parts"][0]["kind"] == "file"
    assert found["status"]["state"] == "completed"
    assert found["contextId"] == "c"
    assert (await desk.call("contexts/get", history_length=1))["result"] == ["c"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["one", "answer to one", "two", "answer to two", "three", "answer to three"]),
        ({"historyLength": 3}, ["answer to two", "three", "answer to three"]),
        ({"historyLength": 2, "historyOffset": 1}, ["answer to two", "three"]),
        ({"historyOffset": 4}, ["one", "answer to one"]),
        ({"historyLength": 100, "historyOffset": 5}, ["one"]),
        ({"historyOffset": 6}, []),
        ({"historyLength": 0}, []),
        ({"historyLength": None, "historyOffset": None, "metadata": {"any": 1}}, None),
    ],
)
async def test_history_length_selects_newest_messages(
    desk: ConversationClient, params: dict[str, Any], expected: list[str] | None
) -> None:
    for text in ("one", "two", "three"):
        await desk.say(text)
    assert await desk.said(**params) == (expected if expected is not None else await desk.said())


async def test_context_history_can_be_paged_backwards(desk: ConversationClient) -> None:
    """The pages contain each message once."""
    for number in range(12):
        await desk.say(f"n{number}")
    whole = await desk.said()
    paged: list[str] = []
    while page := await desk.said(historyLength=5, historyOffset=len(paged)):
        paged = page + paged
    assert paged == whole
    assert len(whole) == 24


async def test_conversations_artifacts_are_independent_of_history_length(desk: ConversationClient) -> None:
    await desk.say("file")
    await desk.say("hi")
    found = await desk.context(historyLength=0)
    assert ([artifact["artifactId"] for artifact in found["artifacts"]], found["history"]) == (["file"], [])


@pytest.mark.parametrize("answer", AnswerAs)
async def test_agents_answer_is_in_conversation_history_once(answer: AnswerAs, clock: ManualClock) -> None:
    async for desk in a_desk(clock, answer=answer, reply=ReplyAs.AUTO):
        await desk.say("hi")
        await desk.say("replied")
        found = await desk.context()
        assert [texts(message["parts"])[0] for message in found["history"]] == [
            "hi",
            "answer to hi",
            "replied",
            "answer to replied",
        ]
        assert all(message["contextId"] == "c" and message["messageId"] for message in found["history"])
        made = [artifact["artifactId"] for artifact in found["artifacts"]]
        assert made == ([] if answer is AnswerAs.MESSAGE else ["a-hi", "a-replied"])


async def test_foreign_context_is_unknown(desk: ConversationClient) -> None:
    """Read another owner's context: the response has the same bytes as for an unknown context (A2A 3.3.2)."""
    await send_task(desk.made.service, CallContext("another owner", "test"), request(context_id="theirs"))
    foreign = await desk.call("GetContext", contextId="theirs")
    assert foreign == await desk.call("GetContext", contextId="nobody-s")
    assert foreign["error"]["code"] == NOT_FOUND
    assert foreign["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
    assert foreign == await desk.call("context/get", contextId="theirs")
    with pytest.raises(ContextNotFound):
        await desk.made.conversations.get(CallContext("another owner", "other"), "theirs", length=None, offset=0)


async def test_get_context_omits_unreadable_task(clock: ManualClock) -> None:
    """One task of the context cannot be read: the messages of the others are returned."""
    broken: set[str] = set()

    class Breaking(MemoryTaskStore):
        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            if key.task_id in broken:
                raise StoreCorrupt("A record cannot be read.")
            return await super().log(key, after=after)

    store = Breaking(clock)
    made = parts(Teller(), store, clock, task_list=MemoryTaskList(store))
    async with http(made.app()) as client:
        desk = ConversationClient(client, made, clock)
        await desk.say("one")
        broken.add((await desk.say("two"))["id"])
        assert await desk.said() == ["one", "answer to one"]


async def test_get_context_response_is_limited_in_size(
    desk: ConversationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Return as many of the newest tasks as fit into a buffered response, but at least one."""
    for number in range(10):
        await desk.say(f"n{number}")
    whole = await desk.said()
    monkeypatch.setattr(conversations, "MOST_TASKS", 9)
    assert await desk.said() == whole[2:]
    monkeypatch.setattr(conversations, "MAX_PAGE_BYTES", 1)
    assert await desk.said() == whole[-2:]
    assert await desk.said(historyOffset=2, historyLength=2) == whole[-4:-2]


# ── GetContexts ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_contexts_are_listed_by_their_newest_task(desk: ConversationClient) -> None:
    """The context with the newest task is first; each context appears once, those of other owners do not."""
    await send_task(desk.made.service, CallContext("another owner", "test"), request(context_id="theirs"))
    assert (await desk.call("GetContexts"))["result"] == []
    for context_id in ("a", "b", "c"):
        await desk.say("hi", context_id=context_id)
    await desk.say("again", context_id="a")
    assert (await desk.call("GetContexts"))["result"] == ["a", "c", "b"]
    assert (await desk.call("GetContexts", historyLength=1))["result"] == ["a"]
    assert (await desk.call("GetContexts", historyLength=2, historyOffset=1))["result"] == ["c", "b"]
    assert (await desk.call("GetContexts", historyOffset=3))["result"] == []
    assert (await desk.call("GetContexts", historyLength=0))["result"] == []


async def test_context_list_reads_limited_number_of_tasks(
    desk: ConversationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for context_id in ("old", "a", "b", "c"):
        await desk.say("hi", context_id=context_id)
    monkeypatch.setattr(conversations, "LISTED_AT_ONCE", 2)
    monkeypatch.setattr(conversations, "MOST_TASKS_LISTED", 4)
    assert (await desk.call("GetContexts"))["result"] == ["c", "b", "a", "old"]
    await desk.say("again", context_id="c")
    assert (await desk.call("GetContexts"))["result"] == ["c", "b", "a"]


# ── A lagging index ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_get_context_ignores_stale_index_entries(clock: ManualClock) -> None:
    """A lagging index returns a task twice, a deleted task, and a task of another context."""

    class Stale(MemoryTaskList):
        extra: tuple[ListCursor, ...] = ()

        async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> ListedTasks:
            places = [*self.extra, *(await super().page(tasks, after=None, limit=1000)).found]
            return ListedTasks(places[places.index(after) + 1 if after else 0 :][:limit])

    store = MemoryTaskStore(clock)
    stale = Stale(store)
    made = parts(Teller(), store, clock, task_list=stale)
    async with http(made.app()) as client:
        desk = ConversationClient(client, made, clock)
        other = await desk.say("elsewhere", context_id="another")
        task = await desk.say("hi")
        at = clock.now() + timedelta(seconds=1)
        stale.extra = tuple(ListCursor(at, task_id) for task_id in (task["id"], "gone", other["id"]))
        assert await desk.said() == ["hi", "answer to hi"]
        elsewhere = parts(Teller(), store, clock, task_list=stale).conversations
        assert await elsewhere.ids(CallContext("anonymous", "another agent"), length=50, offset=0) == []


# ── Refused requests ──────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("method", "params", "field"),
    [
        ("GetContext", {}, "contextId"),
        ("GetContext", {"contextId": None}, "contextId"),
        ("GetContext", {"contextId": ""}, "contextId"),
        ("GetContext", {"contextId": 5}, "contextId"),
        ("GetContext", {"contextId": ["c"]}, "contextId"),
        ("GetContext", {"contextId": "no\0id"}, "contextId"),
        ("GetContext", {"contextId": "c" * 513}, "contextId"),
        ("GetContext", {"contextId": "c", "historyLength": -1}, "historyLength"),
        ("GetContext", {"contextId": "c", "historyLength": "5"}, "historyLength"),
        ("GetContext", {"contextId": "c", "historyLength": True}, "historyLength"),
        ("GetContext", {"contextId": "c", "historyLength": 1.5}, "historyLength"),
        ("GetContext", {"contextId": "c", "historyOffset": -1}, "historyOffset"),
        ("context/get", {"context_id": 5}, "contextId"),
        ("context/get", {"context_id": "c", "history_offset": {}}, "historyOffset"),
        ("GetContexts", {"historyLength": 101}, "historyLength"),
        ("GetContexts", {"historyLength": []}, "historyLength"),
        ("GetContexts", {"historyOffset": -5}, "historyOffset"),
        ("contexts/get", {"history_length": -5}, "historyLength"),
    ],
)
async def test_invalid_conversation_params_are_named_in_error(
    desk: ConversationClient, method: str, params: dict[str, Any], field: str
) -> None:
    error = (await desk.call(method, **params))["error"]
    assert error["code"] == PARAMS
    assert [violation["field"] for violation in error["data"][1]["fieldViolations"]] == [field]
    assert len(error["message"]) > 20, "a sentence, not a label"


async def test_history_offset_beyond_history_returns_no_messages(desk: ConversationClient) -> None:
    await desk.say("hi")
    assert await desk.said(historyOffset=2**31 - 1) == []
    assert await desk.said(historyLength=2**31 - 1) == ["hi", "answer to hi"]
    assert (await desk.call("GetContexts", historyOffset=2**31 - 1))["result"] == []


@pytest.mark.parametrize(
    ("method", "version", "code"),
    [
        ("GetContext", "1.0", None),
        ("GetContext", "0.3", VERSION),
        ("GetContexts", "0.3", VERSION),
        ("context/get", "0.3", None),
        ("context/get", "1.0", VERSION),
        ("contexts/get", "2.0", VERSION),
    ],
)
async def test_version_header_contradicting_method_is_refused(
    desk: ConversationClient, method: str, version: str, code: int | None
) -> None:
    await desk.say("hi")
    body = {"jsonrpc": "2.0", "id": "an-id", "method": method, "params": {"contextId": "c"}}
    answer = (await desk.http.post("/", json=body, headers={"A2A-Version": version})).json()
    assert answer["id"] == "an-id"
    assert answer.get("error", {}).get("code") == code


async def test_unexpected_error_hides_its_cause_from_client(clock: ManualClock) -> None:
    """The client gets an internal error; the log has the cause."""

    class Odd(MemoryTaskList):
        async def page(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("the secret of the server")

    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, task_list=Odd(store))
    async with http(made.app()) as client:
        for method in ("GetContext", "GetContexts"):
            body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"contextId": "c"}}
            error = (await client.post("/", json=body)).json()["error"]
            assert error["code"] == -32603
            assert "secret" not in str(error)


# ── Reads from DynamoDB ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_table_and_memory_stores_return_same_conversations(stack: Stack, clock: ManualClock) -> None:
    """Compare both stores, which read conversations from the index of task heads."""
    owner, store = new_owner(), dynamodb_store(stack, clock)
    task_list = dynamodb_list(stack, clock)
    made = parts(Teller(), store, clock, task_list=task_list, answer=AnswerAs.ARTIFACT, reply=ReplyAs.MESSAGE)
    call, reader = CallContext(owner, "test"), Conversations(store, task_list)
    for number, context_id in enumerate(("a", "b", "a")):
        clock.move(1)
        await made.service.send(call, request(f"n{number}", message_id=f"m-{number}", context_id=context_id))
    assert await reader.ids(call, length=50, offset=0) == ["a", "b"]
    found = await reader.get(call, "a", length=3, offset=0)
    assert [message.parts[0].text for message in found.history] == ["answer to n0", "n2", "answer to n2"]
    assert [artifact.artifact_id for artifact in found.artifacts] == ["a-n0", "a-n2"]
    with pytest.raises(ContextNotFound):
        await reader.get(CallContext(new_owner(), "test"), "a", length=None, offset=0)


# ── History of an author ──────────────────────────────────────────────────────────────────────────────────────────────


ALL = ["one", "answer to one", "two", "answer to two", "three", "answer to three"]


@each_row(
    ("limit", "before", "expected"),
    [
        (20, None, ALL),
        (3, None, ALL[3:]),
        (0, None, []),
        (20, "m-two", ALL[:2]),
        (1, "m-two", ["answer to one"]),
        (2, "m-three", ALL[2:4]),
        (20, "m-one", []),
        (20, "no such message", ALL),
    ],
)
async def test_message_history_spans_all_tasks_of_context(limit: int, before: str | None, expected: list[str]) -> None:
    """`history(limit, before)` returns the newest messages before that one; the oldest of them is first."""
    clock = SystemClock()
    store = MemoryTaskStore(clock)
    agent = GatedAgent()
    agent.go.set()
    service = parts(agent, store, clock).service
    tasks = [
        await send_task(service, CallContext("owner", "test"), request(text, message_id=f"m-{text}"))
        for text in ("one", "two", "three")
    ]
    await send_task(service, CallContext("owner", "test"), request("elsewhere", context_id="another"))
    await send_task(service, CallContext("another owner", "test"), request("elsewhere"))
    history = Conversations(store, MemoryTaskList(store))
    said = await history.history(TaskKey("owner", tasks[-1].id), ContextKey("owner", "test", "c"), limit, before)
    assert [message.parts[0].text for message in said] == expected


async def test_history_reads_no_more_tasks_than_needed() -> None:
    clock = SystemClock()
    asked = 0

    class CountingStore(MemoryTaskStore):
        async def log(self, key: TaskKey, *, after: int = 0):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            return await super().log(key, after=after)

    store = CountingStore(clock)
    agent = GatedAgent()
    agent.go.set()
    service = parts(agent, store, clock).service
    for n in range(25):
        task = await send_task(service, CallContext("owner", "test"), request(f"{n}", message_id=f"m-{n}"))
    asked = 0
    history = Conversations(store, MemoryTaskList(store))
    said = await history.history(TaskKey("owner", task.id), ContextKey("owner", "test", "c"), 4, None)
    assert [message.parts[0].text for message in said] == ["23", "answer to 23", "24", "answer to 24"]
    assert asked <= 10
