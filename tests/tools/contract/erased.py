"""Persons with data in every store of a deployment, and the raw content of its table and bucket."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.schemes.api_key import make_key
from aion_core.auth.tenants import owner_in
from aion_core.bootstrap import build_app
from aion_core.clock import SystemClock
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.records import Delta, DeltaBatch
from aion_core.engine.remote_calls.callbacks import hash_of
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.protocol.types import Message, Part
from aion_core.settings import Settings
from aion_core.table import keys
from aion_core.table.keys import ContextKey, thread_id
from aion_core.trace.step import Kind, Step, TracedTurn
from aion_core.trace.store import TraceStore
from aion_tools.operator.bootstrap import build_keys
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, StoreConversation
from tests.support.databases import Stack
from tests.support.server import ROOT
from tests.support.service import send
from tests.support.stores import dynamodb_store, dynamodb_table

AION_YAML = ROOT / "tests" / "support" / "agents" / "remembering.yaml"
AGENTS = ("graph", "adk")
TENANT = "acme"
ISSUER = "https://login.example.com"


def environment(stack: Stack) -> dict[str, str]:
    """Return the environment of a process of the deployment."""
    there = {"AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": "127.0.0.0/8", "AION_CONFIG": str(AION_YAML)}
    return {
        **stack.environment("ApiFunction"),
        **there,
        "AION_BASE_URL": "http://test",
        "AION_HTTP_ENTRYPOINTS": "NONE",
    }


@dataclass
class Person:
    """Owner of test data: a person who sends requests to both agents with API keys."""

    name: str
    contexts: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of agent and context id."""
    key_id: str = ""

    @property
    def owner(self) -> str:
        """Return the owner id of the data that the person created without a tenant."""
        return Principal(API_KEY_ISSUER, self.name).owner

    @property
    def owners(self) -> tuple[str, str]:
        """Return the owner ids of all the person's data, with and without a tenant."""
        return self.owner, owner_in(self.owner, TENANT)

    def traces(self) -> set[str]:
        """Return the texts that identify the person's data in the table or in the bucket."""
        owned = [ContextKey(owner, *context) for owner in self.owners for context in self.contexts]
        hashes = {thread_id(context) for context in owned}
        hashes |= {keys.session_thread(each.owner, each.agent, each.context_id) for each in owned}
        hashes |= {keys.user_state_partition(o, agent)[5:] for o in self.owners for agent in AGENTS}
        hashes |= {keys.owner_tag(owner) for owner in self.owners}
        return {self.name, self.key_id, *self.owners, *hashes}


_numbers = itertools.count(100)


def someone(name: str) -> Person:
    """Return a new person of this name."""
    return Person(f"{name}-{next(_numbers)}@example.com")


async def lives(stack: Stack, person: Person) -> None:
    """Send the person's requests to both agents, with and without a tenant; then store the tasks of `_is_cut`."""
    environ = environment(stack)
    made = make_key(person.name, now=SystemClock().now())
    person.key_id = made.record.id
    await build_keys(Settings.from_environ(environ)).add(made.record)
    in_tenant = make_key(person.name, now=SystemClock().now(), tenant=TENANT)
    await build_keys(Settings.from_environ(environ)).add(in_tenant.record)
    app = build_app(Settings.from_environ(environ))
    for key in (made, in_tenant):
        headers = {"X-API-Key": key.text, "A2A-Version": "1.0"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            await _converses(client, person)
    await _is_cut(stack, person)


async def _converses(client: httpx.AsyncClient, person: Person) -> None:
    for agent, words in (("graph", ("hi", "large", "x" * 100_000, "ask")), ("adk", ("hi", "again"))):
        for number, text in enumerate(words):
            context = f"{person.name}-{agent}"
            person.contexts.add((agent, context))
            request = send(text, message_id=f"{person.name}-{number}", contextId=context)
            hook = {"url": "http://127.0.0.1:9/hook", "token": person.name}
            request["params"]["configuration"] = {"taskPushNotificationConfig": hook}
            headers = {"Idempotency-Key": f"{person.name}-{number}"}
            answer = await client.post(f"/agents/{agent}", json=request, headers=headers)
            assert "task" in answer.json().get("result", {}), answer.text[:500]
    streamed = send("streamed", message_id=f"{person.name}-s", method="SendStreamingMessage")
    answer = await client.post("/agents/graph", json=streamed)
    said = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    person.contexts.add(("graph", said[0]["task"]["contextId"]))


async def _is_cut(stack: Stack, person: Person) -> None:
    """Store a running task of a dead process, with chunks, a remote call, a sleep and a queued message, and a finished task with a snapshot."""
    clock = ManualClock()
    person.contexts.add(("graph", f"{person.name}-cut"))
    chat = StoreConversation(
        dynamodb_store(stack, clock), clock, ContextKey(person.owner, "graph", f"{person.name}-cut")
    )
    begun = await chat.starts(task_id=f"t-{person.name}")
    chunks = DeltaBatch(begun.head.generation, begun.lease.fence, 0, (Delta("Hel", append=False),))
    await chat.store.append_deltas(begun.head.key, chunks)
    asked = Message(message_id="r-1", parts=[Part(text=person.name)])
    await chat.store.remote_calls.begin(begun.lease, RemoteCall("ask", "weather", asked, callback=hash_of(person.name)))
    counters = RateLimits(dynamodb_table(stack, clock=clock), clock)
    await counters.take_for_callback(person.owner, hash_of(person.name), per_minute=60)
    await chat.store.sleep_until(begun.lease, "node/0", clock.now())
    traced, step = TracedTurn(begun.head.key, "c", "graph", "turn", 1), Step(1, Kind.TOOL, "weather", 0.0)
    await TraceStore(dynamodb_table(stack, clock=clock), clock).write(traced, 1, [step])
    await chat.queues(begun.head.key.task_id, "m-2")
    person.contexts.add(("graph", f"{person.name}-long"))
    chat = StoreConversation(
        dynamodb_store(stack, clock), clock, ContextKey(person.owner, "graph", f"{person.name}-long")
    )
    begun = await chat.starts(task_id=f"t-{person.name}-long")
    snapshot = await chat.task(begun.head.key.task_id)
    await chat.store.finish(begun.lease, begun.head, chat.says(begun.head, COMPLETED), snapshot=snapshot)


class RecordedLives:
    """Stored data of Alice and Bob. Slow requests create it once for each database; each test gets a copy."""

    def __init__(self) -> None:
        self._recorded: dict[str, tuple[tuple[Person, Person], list[dict[str, Any]], list[dict[str, Any]]]] = {}

    async def copy_to(self, stack: Stack) -> tuple[Person, Person]:
        """Replace the content of the stack's table and bucket by the data of both persons."""
        databases.empty(stack)
        there = stack.template.place.endpoint
        if there not in self._recorded:
            both = someone("alice"), someone("bob")
            for person in both:
                await lives(stack, person)
            self._recorded[there] = both, table_items(stack), bucket_versions(stack)
            return both
        both, items, versions = self._recorded[there]
        environ, client, s3 = stack.environment("ApiFunction"), stack.client("dynamodb"), stack.client("s3")
        for start in range(0, len(items), 25):
            puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
            client.batch_write_item(RequestItems={environ["AION_TABLE"]: puts})
        for each in versions:
            of = {"Bucket": environ["AION_BUCKET"], "Key": each["Key"]}
            s3.delete_object(**of) if each["Body"] is None else s3.put_object(**of, Body=each["Body"])
        return both


# ── Raw content ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table_items(stack: Stack) -> list[dict[str, Any]]:
    """Return every item of the table, in the order of the keys."""
    pages = (
        stack.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=stack.environment("ApiFunction")["AION_TABLE"], ConsistentRead=True)
    )
    return sorted(
        (item for page in pages for item in page["Items"]), key=lambda item: (item["pk"]["S"], item["sk"]["S"])
    )


def bucket_versions(stack: Stack) -> list[dict[str, Any]]:
    """Return every version and delete marker of the bucket: names, version ids and contents."""
    s3, bucket = stack.client("s3"), stack.environment("ApiFunction")["AION_BUCKET"]
    return sorted(_versions(s3, bucket), key=lambda each: (each["Key"], each["VersionId"]))


def _versions(s3: Any, bucket: str) -> Iterator[dict[str, Any]]:
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for each in page.get("Versions", []):
            body = s3.get_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])["Body"].read()
            yield {"Key": each["Key"], "VersionId": each["VersionId"], "Body": body}
        for each in page.get("DeleteMarkers", []):
            yield {"Key": each["Key"], "VersionId": each["VersionId"], "Body": None}


def of_person(person: Person, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those table items or bucket versions that contain a text identifying the person."""
    traces = person.traces()
    return [item for item in items for text in [repr(item)] if any(trace in text for trace in traces)]


def run_in_thread(run: Any, *arguments: object, **options: Any) -> Any:
    """Run a command in a thread, because the command starts its own event loop."""
    return asyncio.to_thread(run, *arguments, **options)
