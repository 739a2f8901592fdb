"""`aion data delete` with the data of two owners: one owner's data is deleted, the other owner's data is unchanged."""

import asyncio
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.aws.client import AwsClient
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.keys import ContextKey, TaskKey
from aion_tools.erasure.aws_stores import ErasableDynamoDBTable, S3ObjectVersions
from aion_tools.erasure.deletion import Erasure
from aion_tools.erasure.kinds import ITEMS, OBJECTS, OF_THE_DEPLOYMENT, prefix_of
from tests.support import operating
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.databases import Stack
from tests.support.frozen import frozen
from tests.support.savers import CuttableConnection, DynamoDBSavers
from tests.support.server import ROOT
from tests.support.stores import dynamodb_store
from tests.tools.contract.erased import (
    AION_YAML,
    Person,
    RecordedLives,
    bucket_versions,
    environment,
    of_person,
    run_in_thread,
    table_items,
)

Delete = Callable[..., Awaitable[Any]]
Making = Callable[..., Erasure]
Both = tuple[Person, Person]

ACTIONS = {
    "ListObjectVersions": ["s3:ListBucketVersions"],
    "DeleteObjects": ["s3:DeleteObjectVersion"],
}
"""IAM actions of the operations that have another name in IAM."""


@pytest.fixture
def delete(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Delete:
    environ = environment(stack)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    run = operating.runs(environ)

    def with_config(*arguments: object) -> Any:
        return run_in_thread(run, "data", "delete", "--config", AION_YAML, *arguments)

    return with_config


@pytest.fixture
def erasure(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Making:
    environ = environment(stack)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def make(client: Any = None, *, s3: Any = None) -> Erasure:
        executor = ThreadPoolExecutor(16)
        dynamodb = AwsClient("dynamodb", executor, client=client or stack.client("dynamodb"))
        return Erasure(
            ErasableDynamoDBTable(dynamodb, name=environ["AION_TABLE"]),
            S3ObjectVersions(AwsClient("s3", executor, client=s3 or stack.client("s3")), bucket=environ["AION_BUCKET"]),
        )

    return make


@pytest.fixture(scope="module")
def lives() -> RecordedLives:
    return RecordedLives()


@pytest.fixture
async def both(stack: Stack, lives: RecordedLives) -> Both:
    """Return Alice and Bob, who both have data in every store."""
    return await lives.copy_to(stack)


def in_pages(**size: int) -> Callable[..., None]:
    """Return a botocore hook that limits the page size of requests."""

    def limit(params: dict[str, Any], **_: Any) -> None:
        params.update(size)

    return limit


class Killed(Exception):
    """Exception that stands for a kill of the process."""


def killed() -> None:
    raise Killed


def ignored(what: str, count: int) -> None:
    """Discard a progress report."""


async def test_delete_of_owner_leaves_none_of_its_data(stack: Stack, delete: Delete, both: Both) -> None:
    alice, bob = both
    items, versions = table_items(stack), bucket_versions(stack)
    bobs = of_person(bob, items), of_person(bob, versions)
    dry = await delete("--subject", alice.name, "--json")
    assert dry.exit_code == 0, dry.output
    report = json.loads(dry.stdout)
    assert {store["store"] for store in report["stores"]} == {*ITEMS.values(), *OBJECTS.values()}
    assert (report["deleted"], report["running"]) == (False, 1)
    assert (table_items(stack), bucket_versions(stack)) == (items, versions)
    assert report["left"] == len(of_person(alice, items)) + len(of_person(alice, versions))
    done = await delete("--subject", alice.name, "--yes")
    assert done.exit_code == 0, (done.output, done.exception)
    assert of_person(alice, table_items(stack)) == []
    assert of_person(alice, bucket_versions(stack)) == []
    assert (of_person(bob, table_items(stack)), of_person(bob, bucket_versions(stack))) == bobs
    again = await delete("--subject", alice.name, "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "No data of this owner." in again.stderr


async def test_items_of_every_kind_name_their_owner(stack: Stack, both: Both) -> None:
    """Each function of keys.py that makes a key makes a kind of item. Let the persons of erased.py store a new kind."""
    tags = {keys.owner_tag(owner) for person in both for owner in person.owners}
    stored = [
        (kind_of(item["pk"]["S"], item["sk"]["S"]), item.get("owner", {"S": ""})["S"]) for item in table_items(stack)
    ]
    assert {kind_of(*key) for key in made_keys()} - {("SECRET#", "HEAD")} <= {kind for kind, _ in stored}
    assert [kind for kind, owner in stored if (owner not in tags) != (kind[0] in OF_THE_DEPLOYMENT)] == []


def made_keys() -> Iterator[Key]:
    """Yield a key made by each function of keys.py."""
    values: dict[Any, Any] = {str: "x", int: 1, tuple[str, ...]: ("x",), str | None: "x"}
    values |= {TaskKey: TaskKey("o", "t"), ContextKey: ContextKey("o", "a", "c")}
    for function in vars(keys).values():
        if inspect.isfunction(function) and (hints := get_type_hints(function)).pop("return", None) is Key:
            yield function(**{name: {"partition": "USER#x"}.get(name, values[hint]) for name, hint in hints.items()})


def kind_of(partition: str, sort: str) -> tuple[str, ...]:
    """Return the fixed parts of a key: its partition's prefix and the words in capitals of its sort key."""
    return prefix_of(partition), *(part for part in sort.split("#") if part.isupper())


async def test_deletion_of_tenants_data_keeps_data_outside_tenant(stack: Stack, delete: Delete, both: Both) -> None:
    principal, tenant = both[0].owners
    done = await delete("--owner", tenant, "--yes")
    assert done.exit_code == 0, (done.output, done.exception)
    left = repr(table_items(stack)), repr(bucket_versions(stack))
    assert [tenant in each or keys.owner_tag(tenant) in each for each in left] == [False, False]
    # The command removes the tenant's tasks from the item that counts the principal's open tasks, and keeps the item.
    assert f"'LIMIT#{principal}'" in left[0]
    assert f"{keys.owner_folder('tasks', principal)}/" in left[1]


async def test_owners_data_is_found_in_small_pages(stack: Stack, erasure: Making, both: Both) -> None:
    alice, _ = both
    client, s3 = stack.client("dynamodb"), stack.client("s3")
    whole = await erasure().find(alice.owners, ignored)
    client.meta.events.register("before-parameter-build.dynamodb.Scan", in_pages(Limit=7))
    s3.meta.events.register("before-parameter-build.s3.ListObjectVersions", in_pages(MaxKeys=5))
    in_small_pages = await erasure(client, s3=s3).find(alice.owners, ignored)
    assert len(whole.rows) == len(in_small_pages.rows)
    assert set(whole.versions) == set(in_small_pages.versions)


@pytest.mark.deep
async def test_next_run_completes_killed_deletion_of_owners_data(stack: Stack, erasure: Making, both: Both) -> None:
    """Kill the deletion at any request: the next one finds the rest."""
    alice, _ = both
    client = stack.client("dynamodb")
    line, kills = CuttableConnection(client, cut=killed), 0
    for cut_at in itertools.count(2, 2):
        work = erasure(client)
        line.restart()
        found = await work.find(alice.owners, ignored)
        line.restart(cut_at)
        try:
            await work.delete(found, ignored)
        except Killed:
            kills += 1
        else:
            break
    assert kills >= 3
    assert of_person(alice, table_items(stack)) == []
    assert of_person(alice, bucket_versions(stack)) == []


async def test_owners_deletion_includes_data_written_by_late_worker(
    stack: Stack, erasure: Making, clock: ManualClock
) -> None:
    """The table refuses a late worker's writes; the next deletion finds the object that it put into the bucket."""
    savers = DynamoDBSavers(stack, clock)
    chat = StoreConversation(savers.tasks, clock)
    running, go = asyncio.Event(), asyncio.Event()

    async def wait(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
        running.set()
        await go.wait()
        emit_message(writer, AIMessage("large" * 10_000))
        return {"messages": []}

    graph = StateGraph(MessagesState).add_node(wait).add_edge(START, "wait").compile()
    agent = LangGraphAgent(
        graph,
        savers.saver,
    )
    work_queue = MemoryWorkQueue(clock)
    runner = TaskRunner(savers.tasks, {"echo": agent}.__getitem__, clock, work_queue, keep_lease=frozen)
    begun = await chat.starts()
    log = await savers.tasks.log(begun.head.key)
    assert log is not None
    turn = asyncio.create_task(Worker(savers.tasks, runner, work_queue, clock).run(begun, EventBroadcast(log.events)))
    await running.wait()

    owner, work = chat.context.owner, erasure()
    found = await work.find([owner], ignored)
    assert found.running == [begun.head.key]
    await work.delete(found, ignored)
    go.set()
    await asyncio.gather(turn, return_exceptions=True)
    left = await work.find([owner], ignored)
    assert (left.rows, left.mentions, left.running) == ([], [], [])
    assert left.versions, "the worker has put the text into the bucket before it was refused"
    await work.delete(left, ignored)
    assert (await work.find([owner], ignored)).is_empty
    assert keys.owner_tag(owner) not in repr(bucket_versions(stack))


async def test_owner_whose_heads_have_expired_is_deleted_whole(stack: Stack, erasure: Making, both: Both) -> None:
    """TTL may delete the items whose keys contain the owner first. What is left has only hashes in its keys."""
    alice, bob = both
    table, client = stack.environment("ApiFunction")["AION_TABLE"], stack.client("dynamodb")
    for item in of_person(alice, table_items(stack)):
        if item["sk"]["S"] == keys.HEAD or not item["pk"]["S"].startswith(("THREAD#", "SESSION#", "USER#")):
            client.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
    bobs = of_person(bob, table_items(stack)), of_person(bob, bucket_versions(stack))
    work = erasure()
    found = await work.find(alice.owners, ignored)
    assert {row.store for row in found.rows} == {"checkpoints", "sessions", "user state"}
    await work.delete(found, ignored)
    assert of_person(alice, table_items(stack)) == of_person(alice, bucket_versions(stack)) == []
    assert (of_person(bob, table_items(stack)), of_person(bob, bucket_versions(stack))) == bobs


async def test_unprocessed_items_of_delete_batch_are_retried(stack: Stack, erasure: Making, clock: ManualClock) -> None:
    client, table = stack.client("dynamodb"), stack.environment("ApiFunction")["AION_TABLE"]
    chat = StoreConversation(dynamodb_store(stack, clock), clock)
    await chat.starts()
    asked: list[int] = []

    def throttle(model: Any, params: dict[str, Any], **_: Any) -> Any:
        """Leave the first item of a batch unprocessed, as throttled tables do."""
        body = json.loads(params["body"])
        asked.append(len(body["RequestItems"][table]))
        if len(asked) > 1:
            return None
        left = {table: body["RequestItems"][table][:1]}
        client.meta.events.unregister("before-call.dynamodb.BatchWriteItem", throttle)
        client.batch_write_item(RequestItems={table: body["RequestItems"][table][1:]})
        client.meta.events.register("before-call.dynamodb.BatchWriteItem", throttle)
        return SimpleNamespace(status_code=200), {"UnprocessedItems": left}

    client.meta.events.register("before-call.dynamodb.BatchWriteItem", throttle)
    work = erasure(client)
    await work.delete(await work.find([chat.context.owner], ignored), ignored)
    assert asked[1] == 1
    assert chat.context.owner not in repr(table_items(stack))


async def test_deletion_fails_if_table_contains_unknown_items(stack: Stack, delete: Delete) -> None:
    """A newer version may have written unknown items for the owner, so the command fails and deletes nothing."""
    client, table = stack.client("dynamodb"), stack.environment("ApiFunction")["AION_TABLE"]
    key = {"pk": {"S": "NOVEL#1"}, "sk": {"S": "HEAD"}}
    client.put_item(TableName=table, Item=key)
    try:
        failed = await delete("--owner", "somebody", "--yes")
    finally:
        client.delete_item(TableName=table, Key=key)
    assert "unknown to this version of aion (1 NOVEL#…)" in operating.refusal(failed)


async def test_runbook_iam_policy_suffices_for_deletion(stack: Stack, erasure: Making, clock: ManualClock) -> None:
    chat = StoreConversation(dynamodb_store(stack, clock), clock)
    await chat.starts(text="x" * 40_000)
    client, s3 = stack.client("dynamodb"), stack.client("s3")
    needed: set[str] = {
        *("dynamodb:Query", "dynamodb:GetItem"),  # the command reads API keys to find their tenants
        "cloudformation:DescribeStacks",
        "cloudformation:DescribeStackResource",
    }

    def note(model: Any, **_: Any) -> None:
        needed.update(ACTIONS.get(model.name, [f"dynamodb:{model.name}"]))

    for each in (client, s3):
        each.meta.events.register("before-call", note)
    work = erasure(client, s3=s3)
    await work.delete(await work.find([chat.context.owner], ignored), ignored)
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = runbook.partition("## Deleting a user's data")[2]
    policy = json.loads(section.partition("```json")[2].partition("```")[0])
    allowed = [statement["Action"] for statement in policy["Statement"]]
    assert needed == {a for action in allowed for a in ([action] if isinstance(action, str) else action)}
