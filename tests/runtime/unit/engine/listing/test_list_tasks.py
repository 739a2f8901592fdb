"""ListTasks over JSON-RPC: filters, pages, and refused requests."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import ListTasksRequest
from a2a.utils.errors import InvalidParamsError

from aion_core.engine.admission import messages
from aion_core.engine.agent import AgentArtifact, Emission, InputRequired, Reply, TurnRequest
from aion_core.engine.call import CallContext
from aion_core.engine.listing import list_tasks
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.errors import InvalidMessage
from aion_core.protocol.types import Artifact, Message, Part, Role, TaskState
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskList, MemoryTaskStore

PARAMS = -32602
STATES = [name for name, state in TaskState.items() if state]


class Clerk:
    """Agent whose message selects the outcome: it requires input, fails, rejects, emits a file, or answers."""

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        said = Message(message_id=f"a-{asked.turn.id}", role=Role.ROLE_AGENT, parts=[Part(text="answer")])
        match asked.message.parts[0].text:
            case "ask":
                yield InputRequired(said)
            case "fail":
                raise RuntimeError("the secret reason")
            case "reject":
                yield Reply(said, TaskState.TASK_STATE_REJECTED)
            case "file":
                yield AgentArtifact(Artifact(artifact_id="file", parts=[Part(text="content")]))
                yield Reply(said)
            case _:
                yield Reply(said)


@dataclass
class ListClient:
    """A client of the app, and the app's parts."""

    http: httpx.AsyncClient
    store: MemoryTaskStore
    lister: TaskLister
    clock: ManualClock

    async def ask(self, text: str = "hi", **message: Any) -> str:
        """Send a message a second after the last one; return its task's id."""
        self.clock.move(1)
        body = send(text, message_id=f"m-{self.clock.now().isoformat()}", **message)
        return str((await self.http.post("/", json=body)).json()["result"]["task"]["id"])

    async def keep(self, number: int, *, owner: str = "anonymous", agent: str = "test", context_id: str = "") -> str:
        """Store a working task of this owner, agent and context; return its id."""
        message = Message(message_id=f"m-{number}", role=Role.ROLE_USER, parts=[Part(text="hi")])
        context = ContextKey(owner, agent, context_id or f"{agent}-{number}")
        at = self.clock.now() + timedelta(seconds=number)
        task_id = f"task-{number:03d}"
        await self.store.create(
            messages.new_task(message, context, task_id=task_id, turn_id="turn", at=at, context_is_new=True),
            holder="h",
        )
        return task_id

    async def call(self, **params: Any) -> dict[str, Any]:
        answer = await self.http.post("/", json={"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": params})
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        assert body["id"] == 7
        return body

    async def list(self, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = (await self.call(**params))["result"]
        assert result.keys() == {"tasks", "nextPageToken", "pageSize", "totalSize"}
        return result

    async def ids(self, **params: Any) -> Any:
        return [task["id"] for task in (await self.list(**params))["tasks"]]

    async def refused(self, field: str = "", **params: Any) -> str:
        error = (await self.call(**params))["error"]
        assert error["code"] == PARAMS, error
        if field:
            violations = error["data"][1]["fieldViolations"]
            assert [violation["field"] for violation in violations] == [field]
        assert len(error["message"]) > 20, "a sentence, not a label"
        return str(error["message"])


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[ListClient]:
    store = MemoryTaskStore(clock)
    made = parts(Clerk(), store, clock, task_list=MemoryTaskList(store))
    async with http(made.app()) as client:
        yield ListClient(client, store, made.lister, clock)


# ── Filters and order ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_owner_without_tasks_gets_empty_list(desk: ListClient) -> None:
    assert await desk.list() == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_tasks_are_listed_by_their_last_status(desk: ListClient) -> None:
    """The task with the newest status is first (A2A 3.1.4)."""
    first = await desk.ask("ask", contextId="c-1")
    second, third = await desk.ask(), await desk.ask("fail")
    assert await desk.ids() == [third, second, first]
    assert await desk.ask("the answer", taskId=first) == first
    listed = await desk.list()
    assert [task["id"] for task in listed["tasks"]] == [first, third, second]
    assert listed["totalSize"] == 3
    times = [task["status"]["timestamp"] for task in listed["tasks"]]
    assert times == sorted(times, reverse=True)


async def test_listed_task_equals_response_of_get_task(desk: ListClient) -> None:
    """Compare a list's entry with GetTask: ids, status time, history and artifacts."""
    task_id = await desk.ask("file")
    get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    read = (await desk.http.post("/", json=get)).json()["result"]
    [listed] = (await desk.list(includeArtifacts=True))["tasks"]
    assert listed["status"]["state"] == "TASK_STATE_COMPLETED"
    for field in ("id", "contextId"):
        assert listed[field] == read[field]
    assert listed["history"] == read["history"]
    assert listed["status"]["timestamp"] == read["status"]["timestamp"]
    assert listed["artifacts"][0]["parts"][0]["text"] == read["artifacts"][0]["parts"][0]["text"] == "content"


async def test_task_list_has_artifacts_on_request_only(desk: ListClient) -> None:
    """Without `includeArtifacts` the key `artifacts` is absent, not empty (A2A 3.1.4)."""
    await desk.ask("file")
    await desk.ask()
    for params in ({}, {"includeArtifacts": False}, {"includeArtifacts": None}):
        assert all("artifacts" not in task for task in (await desk.list(**params))["tasks"])
    without, with_one = (await desk.list(includeArtifacts=True))["tasks"]
    assert with_one["artifacts"][0]["artifactId"] == "file"
    assert without["artifacts"] == []


async def test_listed_tasks_history_has_requested_length(desk: ListClient) -> None:
    """Set `historyLength` in ListTasks (A2A 3.2.4)."""
    task = await desk.ask("ask")
    await desk.ask("the answer", taskId=task)
    lengths = {}
    for asked in (None, 0, 1, 2, 4, 5, 100):
        [listed] = (await desk.list(historyLength=asked))["tasks"]
        assert ("history" in listed) is (asked != 0), "no history is no field, rather than an empty one"
        lengths[asked] = [said["parts"][0]["text"] for said in listed.get("history", [])]
        assert listed["status"]["message"]["parts"] == [{"text": "answer"}], "the status has it with any history"
    assert lengths[None] == lengths[100] == lengths[5] == lengths[4] == ["ask", "answer", "the answer", "answer"]
    assert lengths[0] == []
    assert lengths[1] == ["answer"]
    assert lengths[2] == ["the answer", "answer"]


async def test_context_filter_lists_only_tasks_of_that_context(desk: ListClient) -> None:
    mine = [await desk.ask(contextId="c-1") for _ in range(3)]
    await desk.ask(contextId="c-2")
    assert await desk.ids(contextId="c-1") == mine[::-1]
    assert (await desk.list(contextId="c-1", pageSize=1))["totalSize"] == 3


@pytest.mark.parametrize("context_id", ["unknown", "other-3", "c-", "x" * 128])
async def test_unknown_context_filter_lists_no_tasks(desk: ListClient, context_id: str) -> None:
    """Filter by contexts that do not exist; `other-3` exists, but belongs to another owner."""
    await desk.ask(contextId="c-1")
    await desk.keep(3, owner="somebody", context_id="other-3")
    listed = await desk.list(contextId=context_id)
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_foreign_tasks_are_never_listed(desk: ListClient) -> None:
    mine = [await desk.keep(number, context_id="shared") for number in (1, 4)]
    await desk.keep(2, agent="another", context_id="shared")
    await desk.keep(3, owner="somebody", context_id="shared")
    for params in ({}, {"contextId": "shared"}, {"status": "TASK_STATE_WORKING"}, {"pageSize": 1}):
        listed = await desk.list(**params)
        assert listed["totalSize"] == 2
        found = [task["id"] for task in listed["tasks"]]
        while listed["nextPageToken"]:
            listed = await desk.list(**params, pageToken=listed["nextPageToken"])
            found.extend(task["id"] for task in listed["tasks"])
        assert found == mine[::-1]


async def test_state_filter_lists_only_tasks_in_state(desk: ListClient) -> None:
    tasks = {
        "TASK_STATE_COMPLETED": await desk.ask(),
        "TASK_STATE_FAILED": await desk.ask("fail"),
        "TASK_STATE_REJECTED": await desk.ask("reject"),
        "TASK_STATE_INPUT_REQUIRED": await desk.ask("ask", contextId="c-1"),
        "TASK_STATE_WORKING": await desk.keep(1),
    }
    for state in STATES:
        expected = [tasks[state]] if state in tasks else []
        assert await desk.ids(status=state) == expected
        assert await desk.ids(status=TaskState.Value(state)) == expected, "protobuf's JSON has numbers too"
    for every in (None, "TASK_STATE_UNSPECIFIED", 0):
        assert len(await desk.ids(status=every)) == 5
    assert await desk.ids(status="TASK_STATE_INPUT_REQUIRED", contextId="c-1") == [tasks["TASK_STATE_INPUT_REQUIRED"]]
    assert await desk.ids(status="TASK_STATE_FAILED", contextId="c-1") == []


def wire(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


async def test_status_time_filter_includes_tasks_at_that_exact_time(desk: ListClient) -> None:
    for _ in range(3):
        await desk.ask()
    tasks = (await desk.list())["tasks"]
    ids = [task["id"] for task in tasks]
    at = datetime.fromisoformat(tasks[1]["status"]["timestamp"])
    assert await desk.ids(statusTimestampAfter=tasks[1]["status"]["timestamp"]) == ids[:2]
    assert await desk.ids(statusTimestampAfter=wire(at - timedelta(milliseconds=1))) == ids[:2]
    assert await desk.ids(statusTimestampAfter=wire(at + timedelta(microseconds=1))) == ids[:1]
    nanosecond_later = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond:06d}001Z"
    assert await desk.ids(statusTimestampAfter=nanosecond_later) == ids[:1]
    assert await desk.ids(statusTimestampAfter=at.astimezone(tz=None).isoformat()) == ids[:2]
    assert await desk.ids(statusTimestampAfter="9999-12-31T23:59:59.999999999Z") == []
    assert await desk.ids(statusTimestampAfter="0001-01-01T00:00:00Z") == ids
    assert (await desk.list(statusTimestampAfter=wire(at), pageSize=1))["totalSize"] == 2


# ── Pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_hundred_tasks_are_listed_in_pages(desk: ListClient) -> None:
    expected = [await desk.keep(number) for number in range(101)][::-1]
    found: list[str] = []
    token = ""
    for size in (30, 30, 30, 11):
        listed = await desk.list(pageSize=30, pageToken=token)
        assert (len(listed["tasks"]), listed["pageSize"], listed["totalSize"]) == (size, 30, 101)
        found.extend(task["id"] for task in listed["tasks"])
        token = listed["nextPageToken"]
    assert found == expected
    assert token == ""

    plain = await desk.list()
    assert (len(plain["tasks"]), plain["pageSize"]) == (50, 50)
    assert await desk.ids(pageSize=100) == expected[:100]
    assert await desk.ids(pageSize="100") == expected[:100], "protobuf's JSON has numbers in strings"
    assert await desk.ids(pageSize=7, pageToken=plain["nextPageToken"]) == expected[50:57], "pages may change size"


async def test_full_last_page_of_task_list_has_no_token(desk: ListClient) -> None:
    for number in range(4):
        await desk.keep(number)
    token = (await desk.list(pageSize=2))["nextPageToken"]
    assert (await desk.list(pageSize=2, pageToken=token))["nextPageToken"] == ""
    assert (await desk.list(pageSize=4))["nextPageToken"] == ""
    assert (await desk.list(pageSize=1))["nextPageToken"] != ""


async def test_task_list_page_is_limited_in_bytes(desk: ListClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_tasks, "MAX_PAGE_BYTES", 2000)
    expected = [await desk.ask("x" * 300) for _ in range(9)][::-1]
    expected.insert(0, await desk.ask("x" * 3000))
    found: list[str] = []
    pages: list[int] = []
    token = ""
    while not pages or token:
        listed = await desk.list(pageToken=token)
        assert listed["totalSize"] == 10
        pages.append(len(listed["tasks"]))
        found.extend(task["id"] for task in listed["tasks"])
        token = listed["nextPageToken"]
    assert found == expected
    assert pages[0] == 1, "a large task is a page of its own"
    assert max(pages) > 1
    assert await desk.ids(historyLength=0, pageSize=3) == expected[:3], "omitted artifacts do not count"


async def test_task_updated_during_listing_is_not_listed_twice(desk: ListClient) -> None:
    moved = await desk.ask("ask")
    others = [await desk.ask() for _ in range(3)]
    first = await desk.list(pageSize=2)
    await desk.ask("the answer", taskId=moved)
    second = await desk.list(pageSize=2, pageToken=first["nextPageToken"])
    assert [task["id"] for page in (first, second) for task in page["tasks"]] == others[::-1]
    assert second["nextPageToken"] == ""
    assert (await desk.ids(pageSize=1)) == [moved], "here it is now"


# ── Refused requests ──────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("params", "field"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"pageSize": 2**31 - 1}, "pageSize"),
        ({"historyLength": -1}, "historyLength"),
        ({"contextId": "x" * 513}, "contextId"),
        ({"contextId": "\0"}, "contextId"),
        ({"status": "TASK_STATE_NOPE"}, "status"),
        ({"status": "completed"}, "status"),
        ({"status": "3"}, "status"),
        ({"status": 99}, "status"),
        ({"status": -1}, "status"),
        ({"status": 1.5}, "status"),
        ({"status": True}, "status"),
        ({"status": []}, "status"),
        ({"status": {}}, "status"),
    ],
)
async def test_invalid_list_field_is_named_in_error(desk: ListClient, params: dict[str, Any], field: str) -> None:
    await desk.keep(1)
    assert field in await desk.refused(field, **params)


@each_row(
    ("params", "field"),
    [
        ({"pageSize": "x"}, "pageSize"),
        ({"pageSize": 1.5}, "pageSize"),
        ({"pageSize": True}, "pageSize"),
        ({"pageSize": 10**12}, "pageSize"),
        ({"historyLength": "x"}, "historyLength"),
        ({"historyLength": 10**12}, "historyLength"),
        ({"statusTimestampAfter": "x"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": 5}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-13-01T00:00:00Z"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "10000-01-01T00:00:00Z"}, "statusTimestampAfter"),
        ({"contextId": 5}, "contextId"),
        ({"pageToken": 5}, "pageToken"),
        ({"pageToken": []}, "pageToken"),
        ({"includeArtifacts": "x"}, "includeArtifacts"),
    ],
)
async def test_list_field_of_wrong_type_is_named_in_error(desk: ListClient, params: dict[str, Any], field: str) -> None:
    assert field in await desk.refused(**params)


async def test_unknown_status_error_lists_known_states(desk: ListClient) -> None:
    sentence = await desk.refused("status", status="completed")
    assert all(state in sentence for state in STATES)


async def test_unknown_list_fields_are_ignored(desk: ListClient) -> None:
    task = await desk.keep(1)
    assert await desk.ids(color="blue", page_size=None) == [task]


async def test_modified_page_token_is_refused(desk: ListClient) -> None:
    for number in range(3):
        await desk.keep(number)
    token = (await desk.list(pageSize=1))["nextPageToken"]
    assert await desk.ids(pageSize=1, pageToken=token) == ["task-001"]
    for bad in (
        "garbage",
        "task-001",
        token[:-1],
        token[1:],
        token + "=",
        token + token,
        token.swapcase(),
        token[:20] + ("A" if token[20] != "A" else "B") + token[21:],
        "é\u202e\0",
        "A" * 1_000_000,
    ):
        assert "leave it out" in await desk.refused("pageToken", pageToken=bad)


async def test_page_token_is_refused_with_other_filters(desk: ListClient) -> None:
    for number in range(3):
        await desk.keep(number, context_id="c-1")
    token = (await desk.list(pageSize=1))["nextPageToken"]
    for params in (
        {"contextId": "c-1"},
        {"status": "TASK_STATE_WORKING"},
        {"statusTimestampAfter": "2020-01-01T00:00:00Z"},
    ):
        assert "another list" in await desk.refused("pageToken", pageToken=token, **params)
        own = (await desk.list(pageSize=1, **params))["nextPageToken"]
        assert await desk.ids(pageSize=1, pageToken=own, **params) == ["task-001"]
        assert "another list" in await desk.refused("pageToken", pageToken=own)


@pytest.mark.parametrize(
    "other", [CallContext("somebody", "test"), CallContext("anonymous", "another")], ids=["owner", "agent"]
)
async def test_page_token_of_another_caller_is_refused(desk: ListClient, other: CallContext) -> None:
    for number in range(3):
        await desk.keep(number)
        await desk.keep(number + 10, owner=other.owner, agent=other.agent)
    token = (await desk.list(pageSize=1))["nextPageToken"]
    with pytest.raises(InvalidMessage, match="another list"):
        await desk.lister.list_tasks(other, ListTasksRequest(page_token=token))


async def test_v03_task_list_method_is_refused(desk: ListClient) -> None:
    """v0.3 lists tasks by REST only, so its JSON-RPC has no such method."""
    for method in ("tasks/list", "tasks/listTasks"):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        error = (await desk.http.post("/", json=body)).json()["error"]
        assert error["code"] == -32601
        assert "ListTasks" in error["message"]


# ── SDK client ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_official_client_lists_tasks_page_by_page(desk: ListClient) -> None:
    expected = [await desk.ask() for _ in range(5)][::-1]
    failed = await desk.ask("fail", contextId="c-1")
    card = await A2ACardResolver(desk.http, "http://test").get_agent_card()
    client = ClientFactory(ClientConfig(httpx_client=desk.http, streaming=False)).create(card)
    found: list[str] = []
    request = ListTasksRequest(page_size=2)
    while True:
        page = await client.list_tasks(request)
        assert (page.page_size, page.total_size) == (2, 6)
        found.extend(task.id for task in page.tasks)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert found == [failed, *expected]
    filtered = await client.list_tasks(
        ListTasksRequest(context_id="c-1", status=TaskState.TASK_STATE_FAILED, history_length=0, include_artifacts=True)
    )
    assert [task.id for task in filtered.tasks] == [failed]
    assert not filtered.tasks[0].history
    for wrong, field in (({"page_size": 101}, "pageSize"), ({"page_token": "x"}, "pageToken")):
        with pytest.raises(InvalidParamsError, match=field):
            await client.list_tasks(ListTasksRequest(**wrong))
