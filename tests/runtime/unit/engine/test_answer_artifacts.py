"""Place of a turn's answer, by `answer` in aion.yaml: status message, artifact, or both."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest

from aion_core.engine.agent import Emission, Reply, TurnRequest
from aion_core.engine.agent_options import AnswerAs, ReplyAs
from aion_core.engine.answer import messages_in
from aion_core.engine.call import CallContext
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.records import Lease
from aion_core.engine.task_store import TaskStore
from aion_core.errors import StoreUnavailable
from aion_core.protocol.adk_client import EXTENSION as ADK
from aion_core.protocol.answer_artifacts import as_artifact
from aion_core.protocol.types import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus
from aion_core.table.keys import ContextKey, TaskKey
from tests.runtime.unit.engine.teller import Teller
from tests.runtime.unit.engine.wire import DIALECTS, WireClient, texts
from tests.support.clock import ManualClock, settle
from tests.support.databases import Stack
from tests.support.histories import messages_of as in_history_of
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, parts
from tests.support.stores import MemoryTaskList, MemoryTaskStore, dynamodb_store, new_owner

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)
COMPLETED = TaskState.TASK_STATE_COMPLETED


def shape(task: Task) -> dict[str, Any]:
    """Return the ids of a task's messages and artifacts."""
    return {
        "history": [message.message_id for message in task.history],
        "artifacts": [artifact.artifact_id for artifact in task.artifacts],
        "status": task.status.message.message_id,
    }


# ── Place of the answer ───────────────────────────────────────────────────────────────────────────────────────────────


@both_dialects
@pytest.mark.parametrize("answer", AnswerAs)
async def test_answer_setting_decides_whether_answer_is_artifact_or_status(answer: AnswerAs, dialect: str) -> None:
    """If the answer is an artifact, the whole artifact comes before the last status."""
    artifact_update = "artifactUpdate" if dialect == "1.0" else "artifact-update"
    async with http(parts(Teller(), answer=answer).app()) as http_client:
        client = WireClient(http_client, dialect)
        frames = await client.stream("decorated", contextId="c")
        task = await client.get(frames[0][2]["id"])
    assert [sse_id for sse_id, _, _ in frames] == [str(n) for n in range(1, len(frames) + 1)]
    handed_out = [frame for _, kind, frame in frames if kind == artifact_update]
    last = frames[-1][2]["status"]
    if answer is AnswerAs.MESSAGE:
        assert (handed_out, task.get("artifacts")) == ([], None)
    else:
        (update,) = handed_out
        assert (update.get("append", False), update["lastChunk"]) == (False, True)
        (artifact,) = task["artifacts"]
        assert update["artifact"] == artifact
        assert (artifact["artifactId"], artifact["name"]) == ("a-decorated", "answer")
        assert texts(artifact["parts"]) == ["answer to decorated"]
        assert len(artifact["parts"]) == 2
        assert artifact["metadata"] == {"mood": "better", "aion:answers": "m-1"}
        assert frames[-2][1] == artifact_update
    if answer is AnswerAs.ARTIFACT:
        assert "message" not in last
        assert "message" not in task["status"]
    else:
        assert last["message"] == task["status"]["message"]
        assert last["message"]["messageId"] == "a-decorated"
        assert last["message"]["metadata"] == {"mood": "better"}
    in_history = [] if answer is AnswerAs.ARTIFACT else ["a-decorated"]
    assert [message["messageId"] for message in task["history"]] == ["m-1", *in_history]


@each_row("answer", [AnswerAs.ARTIFACT, AnswerAs.BOTH])
@each_row("text", ["fails", "rejects", "asks"])
async def test_interrupt_or_failure_message_stays_in_status(text: str, answer: AnswerAs) -> None:
    """Interrupt or fail with each setting of `answer`: clients look for this message in the status."""
    task = await parts(Teller(), answer=answer).service.send(CallContext("owner", "test"), request(text))
    assert isinstance(task, Task)
    assert task.status.HasField("message")
    assert not task.artifacts


@pytest.mark.parametrize("text", ["silent", "empty"])
async def test_answer_without_parts_creates_no_artifact(text: str) -> None:
    """Answer without parts: no artifact, because it needs at least one part (A2A 4.1.7)."""
    task = await parts(Teller(), answer=AnswerAs.ARTIFACT).service.send(CallContext("owner", "test"), request(text))
    assert isinstance(task, Task)
    assert (task.status.state, list(task.artifacts)) == (COMPLETED, [])


async def test_streamed_text_is_closed_before_artifact_of_answer() -> None:
    async with http(parts(Teller(), answer=AnswerAs.ARTIFACT).app()) as client:
        frames = await WireClient(client, "1.0").stream("chunks")
    updates = [frame for _, kind, frame in frames if kind == "artifactUpdate"]
    assert [(update["artifact"]["artifactId"], update.get("lastChunk", False)) for update in updates] == [
        ("aion:stream-delta", False),
        ("aion:stream-delta", False),
        ("aion:stream-delta", True),
        ("a-chunks", True),
    ]


@both_dialects
async def test_streamed_answer_is_one_artifact(dialect: str) -> None:
    update = "artifactUpdate" if dialect == "1.0" else "artifact-update"
    async with http(parts(Teller(), answer=AnswerAs.ARTIFACT).app()) as http_client:
        client = WireClient(http_client, dialect)
        frames = await client.stream("spoken")
        task = await client.get(frames[0][2]["id"])
    sent = [frame for _, kind, frame in frames if kind == update]
    assert [
        (*texts(each["artifact"]["parts"]), each.get("append", False), each.get("lastChunk", False)) for each in sent
    ] == [
        ("answer ", False, False),
        ("to spoken", True, False),
        ("", True, True),
    ]
    assert {each["artifact"]["artifactId"] for each in sent} == {"a-spoken"}
    assert "message" not in frames[-1][2]["status"]
    (artifact,) = task["artifacts"]
    assert (artifact["artifactId"], texts(artifact["parts"])) == ("a-spoken", ["answer to spoken"])
    assert artifact["metadata"] == {"aion:answers": "m-1"}


@pytest.mark.parametrize("names_extension", [True, False])
async def test_adks_client_gets_the_whole_text_last(names_extension: bool) -> None:
    """ADK stores the update with `lastChunk` as what the agent said."""
    message = request("spoken")
    call = CallContext("owner", "test", extensions=frozenset({ADK} if names_extension else ()))
    if not names_extension:
        message.message.parts[0].metadata.update({"is_user_input": True})
    stream = parts(Teller(), answer=AnswerAs.ARTIFACT).service.stream(call, message)
    events = [item.payload async for batch in stream for item in batch]
    (last,) = [each for each in events if isinstance(each, TaskArtifactUpdateEvent)]
    assert (last.append, last.last_chunk, last.artifact.parts[0].text) == (False, True, "answer to spoken")


@both_dialects
async def test_stream_continues_within_a_streamed_artifact(dialect: str) -> None:
    """Reconnect after the first chunk. The rest follows, and the whole text at the end, as a replacement."""
    update = "artifactUpdate" if dialect == "1.0" else "artifact-update"
    async with http(parts(Teller(), answer=AnswerAs.ARTIFACT).app()) as http_client:
        client = WireClient(http_client, dialect)
        whole = await client.stream("spoken", contextId="c")
        first = next(sse_id for sse_id, kind, _ in whole if kind == update)
        http_client.headers["Last-Event-ID"] = first
        rest = await client.stream("spoken", contextId="c")
    sent = [frame for _, kind, frame in rest if kind == update]
    assert [(*texts(each["artifact"]["parts"]), each.get("append", False)) for each in sent] == [
        ("to spoken", True),
        ("answer to spoken", False),
    ]
    assert {each["artifact"]["artifactId"] for each in sent} == {"a-spoken"}


async def test_thread_reply_is_in_history_once() -> None:
    """Reply by `thread.reply` during the turn: the task has the reply once, as a message or as an artifact."""
    for answer in AnswerAs:
        made = parts(Teller(), answer=answer)
        task = await made.service.send(CallContext("owner", "test"), request("replied"))
        assert isinstance(task, Task)
        assert [message.message_id for message in messages_in(task)] == ["m-1", "a-replied"]
        is_artifact = answer is AnswerAs.ARTIFACT
        assert [message.message_id for message in in_history_of(task)] == [
            "m-1",
            *([] if is_artifact else ["a-replied"]),
        ]
        assert [artifact.artifact_id for artifact in task.artifacts] == (
            [] if answer is AnswerAs.MESSAGE else ["a-replied"]
        )


@each_row("answer", AnswerAs)
@each_row("reply", [ReplyAs.MESSAGE, ReplyAs.AUTO])
async def test_message_reply_is_equal_for_every_answer_setting(answer: AnswerAs, reply: ReplyAs) -> None:
    # With `reply: auto` an answer is a Message only if it is quick by this clock.
    clock = ManualClock()
    quick = parts(Teller(), clock=clock, reply=reply)
    expected = await quick.service.send(CallContext("owner", "test"), request("decorated"))
    made = parts(Teller(), clock=clock, reply=reply, answer=answer)
    message = await made.service.send(CallContext("owner", "test"), request("decorated"))
    items = [
        item.payload
        async for batch in made.service.stream(CallContext("owner", "test"), request("decorated", message_id="m-2"))
        for item in batch
    ]
    assert isinstance(message, Message)
    assert items == [message] == [expected]


# ── Readers of the conversation ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", AnswerAs)
async def test_history_has_each_answer_once_in_order(answer: AnswerAs) -> None:
    """Run two tasks in a context, one with an interrupt."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(Teller(), store, clock, answer=answer)
    call = CallContext("owner", "test")
    await made.service.send(call, request("meanwhile", message_id="m-1"))
    clock.move(1)
    asking = await made.service.send(call, request("asks", message_id="m-2"))
    assert isinstance(asking, Task)
    await made.service.send(call, request("that one", message_id="m-3"))
    history = Conversations(store, MemoryTaskList(store))
    read = partial(history.history, TaskKey("owner", asking.id), ContextKey("owner", "test", "c"))
    assert [message.parts[0].text for message in await read(20, None)] == [
        "meanwhile",
        "one moment",
        "answer to meanwhile",
        "asks",
        "which?",
        "that one",
        "answer to that one",
    ]
    assert {message.context_id for message in await read(20, None)} == {"c"}


def test_reason_of_cancellation_follows_recorded_answer() -> None:
    """Cancel a task after its answer was recorded as an artifact: the conversation has the answer, then the reason."""
    sent, said, reason = (Message(message_id=each, role=Role.ROLE_AGENT) for each in ("m-1", "said", "reason"))
    sent.role = Role.ROLE_USER
    recorded = as_artifact(Message(message_id="answer", parts=[Part(text="42")]), sent)
    status = TaskStatus(state=TaskState.TASK_STATE_CANCELED, message=reason)
    task = Task(history=[sent, said, reason], artifacts=[recorded], status=status)
    assert [message.message_id for message in messages_in(task)] == ["m-1", "said", "answer", "reason"]


@pytest.mark.parametrize("answer", [AnswerAs.ARTIFACT, AnswerAs.BOTH])
async def test_continued_task_has_answer_for_each_message(answer: AnswerAs) -> None:
    """Queue a message while the first turn ends: the first answer becomes a message of the continued task."""
    clock, agent = ManualClock(), Teller()
    store = MemoryTaskStore(clock)
    made = parts(agent, store, clock, answer=answer)
    first = asyncio.create_task(made.service.send(CallContext("owner", "test"), request("slow")))
    await agent.began.wait()
    (task_id,) = [key.task_id for key in store.task_keys()]
    second = asyncio.create_task(
        made.service.send(CallContext("owner", "test"), request("more", message_id="m-2", task_id=task_id))
    )
    await settle()
    agent.go.set()
    while not (first.done() and second.done()):
        clock.move(0.1)
        await settle()
    task = second.result()
    assert isinstance(task, Task)
    assert [artifact.artifact_id for artifact in task.artifacts] == ["a-slow", "a-more"]
    assert [message.message_id for message in messages_in(task)] == ["m-1", "a-slow", "m-2", "a-more"]


# ── Interrupted turns ─────────────────────────────────────────────────────────────────────────────────────────────────


class Fickle:
    """Agent with a different answer in each run."""

    def __init__(self) -> None:
        self.runs = 0

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.runs += 1
        yield Reply(Message(parts=[Part(text=f"answer {self.runs}")]))


class DiesAtTheEnd:
    """Task store that fails this many times to record the end of a turn."""

    def __init__(self, store: TaskStore, times: int = 1) -> None:
        self._store, self._times = store, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def finish(self, lease: Lease, *args: Any, **options: Any) -> Any:
        if self._times:
            self._times -= 1
            raise StoreUnavailable("The answer is in, and the process dies.")
        return await self._store.finish(lease, *args, **options)


@pytest.mark.parametrize("kept_in", ["memory", "dynamodb"])
@pytest.mark.parametrize("answer", [AnswerAs.ARTIFACT, AnswerAs.BOTH])
async def test_answer_of_interrupted_turn_is_recorded_once(
    answer: AnswerAs, kept_in: str, request_stack: Stack | None, clock: ManualClock
) -> None:
    """Run the turn a second time with another answer: the first answer, already recorded, stays."""
    whole: TaskStore = dynamodb_store(request_stack, clock) if request_stack else MemoryTaskStore(clock)
    owner, agent = new_owner(), Fickle()
    failing: Any = DiesAtTheEnd(whole)
    dying = parts(agent, failing, clock, answer=answer)
    call = CallContext(owner, "test")
    first = asyncio.create_task(dying.service.send(call, request()))
    task = await done(first, clock)
    assert agent.runs == 2
    assert isinstance(task, Task)
    assert task.status.state == COMPLETED
    (artifact,) = task.artifacts
    assert artifact.parts[0].text == "answer 1"
    assert [message.parts[0].text for message in messages_in(task)] == ["hi", "answer 1"]
    assert task.status.HasField("message") == (answer is AnswerAs.BOTH)
    log = await whole.log(TaskKey(owner, task.id))
    assert log is not None
    assert [entry.generation for entry in log.events] == [1, 2, 3, 4]


@pytest.fixture
def request_stack(kept_in: str, request: pytest.FixtureRequest) -> Stack | None:
    return request.getfixturevalue("stack") if kept_in == "dynamodb" else None


async def done(work: "asyncio.Task[Any]", clock: ManualClock) -> Any:
    async with asyncio.timeout(60):
        while not work.done():
            clock.move(0.5)
            # Sleep in real time, because DynamoDB's client does its requests in threads, independent of this clock.
            await asyncio.sleep(0.002)
    return await work


async def test_answer_of_failed_turn_is_kept() -> None:
    """Record the answer, then fail the turn: the status has the reason, and the artifact stays."""
    clock = ManualClock()
    store: Any = DiesAtTheEnd(MemoryTaskStore(clock), times=4)
    made = parts(Fickle(), store, clock, answer=AnswerAs.ARTIFACT)
    task = await done(asyncio.create_task(made.service.send(CallContext("owner", "test"), request())), clock)
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert [artifact.parts[0].text for artifact in task.artifacts] == ["answer 1"]
