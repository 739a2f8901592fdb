"""Service: promises to callers, cancellation, and repeated requests."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.engine.admission import messages, repeats
from aion_core.engine.agent import Chunk, Emission, InputRequired, Reply, TurnRequest
from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import Interrupted, TurnStarted
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.records import Cursor
from aion_core.engine.runner import renewal, runner
from aion_core.engine.stream import subscription
from aion_core.engine.stream.shared_reads import SharedReads
from aion_core.engine.task import timestamps
from aion_core.errors import MessageIdReused, TaskNotCancelable, TaskNotFound
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey, context_key, message_key
from aion_core.table.writes import Change, Delete, Update
from tests.support.agents.scripted import AskingAgent, GatedAgent, Stubborn, says
from tests.support.clock import ManualClock, settle
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, parts, rpc_body, send, send_task
from tests.support.stores import MemoryTaskStore


class StreamingAgent:
    """Agent that streams a chunk, waits for `go`, and answers."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.spoke = asyncio.Event()

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("word", "call")
        self.spoke.set()
        await self.go.wait()
        yield Reply(Message(message_id="a", parts=[Part(text="answer")]))


def configured(**configuration: Any) -> SendMessageRequest:
    message = Message(message_id="m-1", context_id="c", role=Role.ROLE_USER, parts=[Part(text="hi")])
    return SendMessageRequest(message=message, configuration=configuration)


async def test_return_immediately_returns_working_task() -> None:
    """The response has the task in the state working; its turn continues afterwards."""
    agent = StreamingAgent()
    made = parts(agent)
    service = made.service
    call = CallContext("owner", "test")
    task = await send_task(service, call, configured(return_immediately=True))
    assert task.status.state == TaskState.TASK_STATE_WORKING
    assert not call.background, "another function runs it"
    agent.go.set()
    await made.work_queue.quiet()
    assert (await service.get(call, task.id)).status.state == TaskState.TASK_STATE_COMPLETED


async def test_service_without_time_after_response_runs_turn_before() -> None:
    agent, clock = StreamingAgent(), ManualClock()
    service = parts(agent, clock=clock, blocking_wait=None).service
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(service, call, configured(return_immediately=True)))
    await agent.spoke.wait()
    clock.move(100_000)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not sending.done()
    agent.go.set()
    assert (await sending).status.state == TaskState.TASK_STATE_COMPLETED


async def test_blocking_send_returns_current_task_after_wait() -> None:
    """The turn is longer than `blocking_wait`: the response has the task in its current state."""
    agent, clock = StreamingAgent(), ManualClock()
    service = parts(agent, clock=clock).service
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(service, call, configured()))
    await agent.spoke.wait()
    clock.move(239)
    await asyncio.sleep(0)
    assert not sending.done()
    clock.move(2)
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    await asyncio.wait(call.background)


async def test_task_is_unknown_to_other_owner_or_agent() -> None:
    agent = StreamingAgent()
    agent.go.set()
    service = parts(agent).service
    task = await send_task(service, CallContext("owner", "test"), configured())
    for stranger in (CallContext("other", "test"), CallContext("owner", "another")):
        with pytest.raises(TaskNotFound):
            await service.get(stranger, task.id)
        with pytest.raises(TaskNotFound):
            _ = [batch async for batch in service.subscribe(stranger, task.id)]


async def test_send_returns_task_ended_by_next_lease_holder() -> None:
    """The first holder loses its lease: its caller gets the end that the second holder records."""
    clock = ManualClock()
    store = MemoryTaskStore(clock, lease_seconds=30)
    agent = StreamingAgent()
    service = parts(agent, store, clock, lease_seconds=0.03).service
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(service, call, configured()))
    await agent.spoke.wait()
    (key,) = store.task_keys()
    head = await store.head(key)
    assert head is not None
    context = head.context
    heir: object = None
    while not isinstance(heir, TurnStarted):
        # Again, if the holder's thread has renewed the lease between the two calls.
        await store.table.write(Update(context_key(context), Change({"until": 0})))
        heir = await store.begin(context, holder="heir")
    status = timestamps.status_at(TaskState.TASK_STATE_COMPLETED, clock.now())
    status.message.CopyFrom(Message(message_id="heirs", parts=[Part(text="by the heir")]))
    await store.finish(heir.lease, heir.head, TaskStatusUpdateEvent(status=status))
    async with asyncio.timeout(60):
        while not sending.done():
            clock.move(0.3)
            # Sleep in real time, because the heartbeat's thread renews the lease in real time.
            await asyncio.sleep(0.005)
    task = await sending
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert task.status.message.parts[0].text == "by the heir"


async def test_stream_of_silent_task_ends_after_idle_time() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    service = parts(StreamingAgent(), store, clock).service
    call = CallContext("owner", "test")
    task = await send_task(service, call, configured(return_immediately=True))

    async def read() -> None:
        async for _ in subscription.tail(SharedReads(store, clock), TaskKey("owner", task.id), clock, after=Cursor()):
            pass

    reading = asyncio.create_task(read())
    for _ in range(600):
        clock.move(1)
        for _ in range(8):
            await asyncio.sleep(0)
        if reading.done():
            break
    assert reading.done()
    for work in call.background:
        work.cancel()


async def test_streaming_and_webhooks_are_refused_unless_card_offers_them() -> None:
    """The card offers neither streaming nor push notifications: both are refused."""
    made = parts(StreamingAgent())
    made.streaming = False
    async with http(made.app()) as client:
        for method in ("SendStreamingMessage", "message/stream"):
            assert rpc_body(await client.post("/", json=send(method=method)))["error"]["code"] == -32004
        body = send()
        body["params"]["configuration"] = {"taskPushNotificationConfig": {"url": "https://x.test/"}}
        assert (await client.post("/", json=body)).json()["error"]["code"] == -32003


@each_row(
    "part",
    ['{"data": {"x": 1e999}}', '{"text": "x", "metadata": {"x": -1e999}}', '{"raw": "!!!"}', '{"raw": "A"}'],
)
async def test_message_with_invalid_number_or_base64_is_refused(part: str) -> None:
    body = json.dumps(send()).replace('{"text": "hi"}', part)
    async with http(parts(StreamingAgent()).app()) as client:
        answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["code"] == -32602


# ── Cancellation ──────────────────────────────────────────────────────────────────────────────────────────────────────


CANCELED = TaskState.TASK_STATE_CANCELED
COMPLETED = TaskState.TASK_STATE_COMPLETED


async def task_id_of(store: Any) -> str:
    """Return the only task of the store."""
    (key,) = store.task_keys()
    return str(key.task_id)


async def test_cancel_of_running_task_stops_agent() -> None:
    agent = GatedAgent()
    made = parts(agent, lease_seconds=3)
    sending = asyncio.create_task(send_task(made.service, CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    elsewhere = CallContext("owner", "test")
    task = await made.service.cancel(elsewhere, await task_id_of(made.store))
    assert task.status.state == CANCELED
    assert task.status.message.parts[0].text == "Canceled."
    assert task.status.HasField("timestamp")
    answer = await asyncio.wait_for(sending, 60)
    assert answer.status.state == CANCELED, "the blocking send returns the canceled task"
    assert agent.stopped == 1
    assert await made.service.get(elsewhere, task.id) == task, "nothing follows"


async def test_cancel_takes_effect_although_agent_keeps_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(runner, "STOP_SECONDS", 0.2)
    agent = Stubborn()
    made = parts(agent, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    task = await made.service.cancel(CallContext("owner", "test"), await task_id_of(made.store))
    assert (await asyncio.wait_for(sending, 60)).status.state == CANCELED
    agent.go.set()
    await settle()
    assert await made.service.get(call, task.id) == task


async def test_cancel_of_queued_task_prevents_its_turn() -> None:
    """Cancel a task whose turn is queued; for its client it is already `working`."""
    agent = GatedAgent()
    made = parts(agent)
    call = CallContext("owner", "test")
    first = asyncio.create_task(send_task(made.service, call, request("one", message_id="m-1")))
    await agent.spoke.wait()
    waiting = await send_task(made.service, call, request("two", message_id="m-2", return_immediately=True))
    canceled = await made.service.cancel(call, waiting.id)
    assert canceled.status.state == CANCELED
    agent.go.set()
    assert (await first).status.state == COMPLETED, "the running turn keeps its lease"
    await made.work_queue.quiet()
    assert agent.asked == ["one"]


async def test_message_after_cancel_of_interrupted_task_starts_task() -> None:
    made = parts(AskingAgent())
    call = CallContext("owner", "test")
    asking = await send_task(made.service, call, request("a"))
    assert asking.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert (await made.service.cancel(call, asking.id)).status.state == CANCELED
    again = await send_task(made.service, call, request("b", message_id="m-2"))
    assert again.id != asking.id
    assert again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED


async def test_queued_turn_runs_after_running_task_is_canceled() -> None:
    agent = GatedAgent()
    made = parts(agent, lease_seconds=3)
    call = CallContext("owner", "test")
    first = asyncio.create_task(send_task(made.service, call, request("one")))
    await agent.spoke.wait()
    second = await send_task(made.service, call, request("two", message_id="m-2", return_immediately=True))
    agent.spoke.clear()
    running = next(key.task_id for key in made.store.task_keys() if key.task_id != second.id)  # type: ignore[attr-defined]
    await made.service.cancel(call, running)
    await asyncio.wait_for(agent.spoke.wait(), 60)
    agent.go.set()
    assert (await first).status.state == CANCELED
    await made.work_queue.quiet()
    assert (await made.service.get(call, second.id)).status.state == COMPLETED


async def test_only_one_of_ten_concurrent_cancels_succeeds() -> None:
    """One cancellation succeeds, the others get TaskNotCancelable (A2A 3.1.5)."""
    agent = GatedAgent()
    made = parts(agent, lease_seconds=3)
    sending = asyncio.create_task(send_task(made.service, CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    task_id = await task_id_of(made.store)
    answers = await asyncio.gather(
        *(made.service.cancel(CallContext("owner", "test"), task_id) for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(answer, Task) for answer in answers) == 1
    assert sum(isinstance(answer, TaskNotCancelable) for answer in answers) == 9
    await sending


async def test_cancel_of_foreign_task_is_refused() -> None:
    agent = GatedAgent()
    agent.go.set()
    made = parts(AskingAgent())
    task = await send_task(made.service, CallContext("owner", "test"), request())
    for stranger in (CallContext("other", "test"), CallContext("owner", "another")):
        with pytest.raises(TaskNotFound):
            await made.service.cancel(stranger, task.id)
    head = await made.store.head(TaskKey("owner", task.id))
    assert head is not None
    assert head.state == TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.mark.parametrize(("method", "get"), [("CancelTask", "GetTask"), ("tasks/cancel", "tasks/get")])
async def test_both_protocol_versions_cancel_task(method: str, get: str) -> None:
    """An ended task gives TaskNotCancelable (-32002), an unknown one TaskNotFound (-32001) (A2A 3.1.5)."""
    clock = SystemClock()
    made = parts(AskingAgent(), MemoryTaskStore(clock), clock)
    async with http(made.app()) as client:
        old = "/" in method
        asked = (await client.post("/", json=send(method="message/send" if old else "SendMessage"))).json()["result"]
        task_id = (asked if old else asked["task"])["id"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task_id}}
        canceled = (await client.post("/", json=body)).json()["result"]
        assert canceled["status"]["state"] == ("canceled" if old else "TASK_STATE_CANCELED")
        again = (await client.post("/", json=body)).json()["error"]
        assert again["code"] == -32002
        got = (await client.post("/", json={**body, "method": get})).json()["result"]
        assert got == canceled
        body["params"] = {"id": "no-such-task"}
        assert (await client.post("/", json=body)).json()["error"]["code"] == -32001


async def test_task_stream_ends_with_cancellation() -> None:
    """The last event of the stream is the terminal status."""
    agent = GatedAgent()
    made = parts(agent, lease_seconds=3)
    items: list[Any] = []

    async def listen() -> None:
        async for batch in made.service.stream(CallContext("owner", "test"), request()):
            items.extend(item.payload for item in batch)

    listening = asyncio.create_task(listen())
    await agent.spoke.wait()
    await made.service.cancel(CallContext("owner", "test"), await task_id_of(made.store))
    await asyncio.wait_for(listening, 60)
    assert items[-1].status.state == CANCELED


# ── Repeated messages ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_idempotency_key_identifies_repeated_message_without_context_id() -> None:
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent)
    again = [CallContext("owner", "test", idempotency_key="key-1") for _ in range(3)]
    tasks = await asyncio.gather(*(send_task(made.service, call, request(context_id="")) for call in again))
    assert len({task.id for task in tasks}) == 1
    assert len({task.context_id for task in tasks}) == 1
    assert agent.asked == ["hi"]
    with pytest.raises(MessageIdReused):
        await send_task(made.service, again[0], request("other words", context_id=""))
    other = await send_task(
        made.service, CallContext("another owner", "test", idempotency_key="key-1"), request(context_id="")
    )
    assert other.id != tasks[0].id


async def test_idempotency_key_header_must_be_valid_id() -> None:
    """Accept a key with or without quotes (draft-ietf-httpapi-idempotency-key-header); refuse one that is too long."""
    agent = GatedAgent()
    agent.go.set()
    async with http(parts(agent).app()) as client:
        ids = set()
        for method, key in (("SendMessage", '"k-1"'), ("message/send", "k-1")):
            answer = await client.post("/", json=send(method=method), headers={"Idempotency-Key": key})
            result = answer.json()["result"]
            ids.add(result.get("task", result)["id"])
        assert len(ids) == 1
        for method in ("SendMessage", "message/send", "SendStreamingMessage", "message/stream"):
            bad = await client.post("/", json=send(method=method), headers={"Idempotency-Key": "x" * 600})
            assert rpc_body(bad)["error"]["code"] == -32602


async def test_idempotency_key_header_is_read_as_utf8() -> None:
    """Use keys with bytes that are white space in Latin-1, and a key with one quote mark: each is a key of its own."""
    agent = GatedAgent()
    agent.go.set()
    keys = ["k\u00e0", "k\u00c5", "k\u00c3", "k", '"k', "\N{GRINNING FACE}" * 128]
    async with http(parts(agent).app()) as client:
        tasks = []
        for key in [*keys, *keys]:
            answer = await client.post("/", json=send(), headers={b"Idempotency-Key": key.encode()})
            tasks.append(answer.json()["result"]["task"]["id"])
    assert len(set(tasks)) == len(keys)
    assert tasks[: len(keys)] == tasks[len(keys) :]


async def test_repeated_message_without_context_or_key_creates_task() -> None:
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent)
    one, two = [await send_task(made.service, CallContext("owner", "test"), request(context_id="")) for _ in range(2)]
    assert one.id != two.id


async def test_stopping_process_hands_off_turn_started_by_repeated_message() -> None:
    """A repeat runs a turn that has no lease holder; the stopping process hands the turn off, like its other turns."""
    agent, clock = GatedAgent(), ManualClock()
    made = parts(agent, clock=clock)
    context, message = ContextKey("owner", "test", "c"), request().message
    new = messages.new_task(message, context, task_id="t", turn_id="u", at=clock.now(), context_is_new=False)
    await made.store.create(new, holder=None)
    leave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call = CallContext("owner", "test", deadline=Deadline(grace=0.0, leave=leave))
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    call.deadline.now.set()
    leave.set_result(None)
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING
    async with asyncio.timeout(60):
        await call.background.wait()
    assert agent.stopped == 1
    agent.go.set()
    await made.work_queue.quiet()
    task = await made.service.get(call, "t")
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, "a worker resumes it from the queue"


@pytest.mark.parametrize(("names_task", "reply"), [(True, ReplyAs.TASK), (False, ReplyAs.TASK), (True, ReplyAs.AUTO)])
async def test_stream_of_repeated_answer_omits_question(names_task: bool, reply: ReplyAs) -> None:
    """After a lost connection a client sends its answer again: the question would make it ask its user again."""
    made, call = parts(AskingAgent(), reply=reply), CallContext("owner", "test")
    asks = await send_task(made.service, call, request())
    answer = request("yes", message_id="m-2", context_id="c", task_id=asks.id if names_task else "")
    first, again = [
        [item async for batch in made.service.stream(call, answer) for item in batch] for _ in ("sent", "repeated")
    ]
    assert [item.id for item in again] == [item.id for item in first] == ["4", "5"]
    assert again[0].payload == first[0].payload


@each_row(("last", "following"), [("1", ["2", "3"]), ("3", []), ("9", ["1", "2", "3"]), ("", ["1", "2", "3"])])
async def test_stream_of_repeated_message_resumes_after_last_event_id(last: str, following: list[str]) -> None:
    """Send the same request again with the header Last-Event-ID, as libraries for Server-Sent Events do."""
    service = parts(AskingAgent()).service
    call = CallContext("owner", "test", last_event_id=last)
    first, again = [
        [item.id async for batch in service.stream(call, request()) for item in batch if item.id]
        for _ in ("sent", "repeated")
    ]
    assert first == ["1", "2", "3"]
    assert again == following


async def test_last_event_id_of_another_stream_skips_no_event() -> None:
    """Send a new message with an old Last-Event-ID: the agent asks, so the stream has the events of the task."""
    service = parts(AskingAgent(), reply=ReplyAs.MESSAGE).service
    stream = service.stream(CallContext("owner", "test", last_event_id="2"), request())
    assert [item.id async for batch in stream for item in batch if item.id] == ["1", "2", "3"]


class AsksThenWaits(AskingAgent):
    """AskingAgent that answers only after `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        if asked.turn.message_generation > 1:
            await self.go.wait()
        async for emission in super().run(asked):
            yield emission


async def test_repeated_answer_waits_despite_recent_read_of_question() -> None:
    """Repeat a message and then its answer, within the time in which readers share a read of the store."""
    agent, clock = AsksThenWaits(), ManualClock()
    made, call = parts(agent, clock=clock), CallContext("owner", "test")
    asks, _ = [await send_task(made.service, call, request()) for _ in ("sent", "repeated")]
    answer = request("yes", message_id="m-2", task_id=asks.id)
    sent = [asyncio.create_task(send_task(made.service, call, answer)) for _ in ("sent", "repeated")]
    await settle()
    assert not any(task.done() for task in sent)
    agent.go.set()
    await clock.passes(1)
    assert {(await task).status.state for task in sent} == {TaskState.TASK_STATE_COMPLETED}


async def test_stream_of_repeated_queued_message_begins_with_current_task() -> None:
    agent = GatedAgent()
    made, call = parts(agent), CallContext("owner", "test")
    task = await send_task(made.service, call, configured(return_immediately=True))
    await agent.spoke.wait()
    follow_up = request("more", message_id="m-2", task_id=task.id)
    streams = [made.service.stream(call, follow_up) for _ in ("sent", "repeated")]
    first, again = [(await anext(stream))[0] for stream in streams]
    assert (again.id, again.payload) == (first.id, first.payload)
    for stream in streams:
        await stream.aclose()


async def test_copies_of_message_get_one_task_despite_concurrent_answer() -> None:
    """A repeat finds an interrupted task, but meanwhile the interrupt is answered, and the first copy has a task."""

    class Overtaken(MemoryTaskStore):
        """Task store that pauses after it has found an interrupted task in the context."""

        meanwhile: Callable[[], Awaitable[Any]] | None = None

        async def create(self, *arguments: Any, **options: Any) -> Any:
            outcome = await super().create(*arguments, **options)
            if isinstance(outcome, Interrupted) and self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                await meanwhile()
            return outcome

    store = Overtaken(SystemClock())
    made = parts(AskingAgent(), store)
    call = CallContext("owner", "test")
    asks = await send_task(made.service, call, request("first"))
    copies = []

    async def others() -> None:
        await send_task(made.service, call, request("yes", message_id="m-3", task_id=asks.id))
        copies.append(await send_task(made.service, call, request("second", message_id="m-2")))

    store.meanwhile = others
    copies.append(await send_task(made.service, call, request("second", message_id="m-2")))
    one, other = copies
    assert one.id == other.id != asks.id
    assert [message.message_id for message in other.history if message.message_id == "m-2"] == ["m-2"]


class Insists(AskingAgent):
    """Agent that requires input again after each answer."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.answers.append(asked.message.message_id)
        yield InputRequired(says("really?"))


async def test_repeated_message_runs_once_although_message_key_expired() -> None:
    """Events extend the task's TTL beyond that of the message key: the task's history identifies the repeat."""
    clock, agent = SystemClock(), Insists()
    store = MemoryTaskStore(clock)
    made, call = parts(agent, store, clock), CallContext("owner", "test")
    task = await send_task(made.service, call, request())
    answer = request("yes", message_id="m-2", context_id="", task_id=task.id)
    await send_task(made.service, call, answer)
    await store.table.write(Delete(message_key(ContextKey("owner", "test", "c"), "m-2")))
    again = await send_task(made.service, call, answer)
    assert agent.answers == ["m-1", "m-2"]
    assert again.id == task.id
    assert isinstance(again, Task)
    assert again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    with pytest.raises(MessageIdReused):
        await send_task(made.service, call, request("no", message_id="m-2", context_id="", task_id=task.id))


@each_row(
    "other",
    [
        {"parts": [Part(text="other")]},
        {"role": Role.ROLE_AGENT},
        {"task_id": "t-2"},
        {"reference_task_ids": ["t-2"]},
        {"extensions": ["https://x.test/extension"]},
    ],
)
def test_change_of_any_field_changes_message_hash(other: dict[str, Any]) -> None:
    """Change one field under the same messageId: the message is no repeat."""
    content: dict[str, Any] = {"message_id": "m-1", "role": Role.ROLE_USER, "task_id": "t-1", "parts": [Part(text="a")]}
    message = Message(**content)
    assert repeats.content_hash(message) == repeats.content_hash(Message(**content, metadata={"trace": "1"}))
    assert repeats.content_hash(message) != repeats.content_hash(Message(**{**content, **other}))
