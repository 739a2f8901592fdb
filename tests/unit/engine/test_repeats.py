"""Repeated requests, also without contextId by the client's Idempotency-Key."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.errors import MessageIdReused
from aion_core.ports import ContextKey, Emission, InputRequired, Interrupted, TurnRequest
from aion_core.ports.table import Delete
from aion_core.protocol.types import Message, Part, Role, Task, TaskState
from aion_core.stores import keys
from aion_core.tasks import admission
from aion_core.tasks.call import CallContext
from tests.support.agents.scripted import Asking, LeaseHeld, says
from tests.support.requests import request
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore


async def test_idempotency_key_identifies_repeat_without_context() -> None:
    agent = LeaseHeld()
    agent.go.set()
    made = parts(agent)
    again = [CallContext("owner", "test", idempotency_key="key-1") for _ in range(3)]
    tasks = await asyncio.gather(*(made.service.send(call, request(context_id="")) for call in again))
    assert len({task.id for task in tasks}) == 1
    assert len({task.context_id for task in tasks}) == 1
    assert agent.asked == ["hi"]
    with pytest.raises(MessageIdReused):
        await made.service.send(again[0], request("other words", context_id=""))
    other = await made.service.send(
        CallContext("another owner", "test", idempotency_key="key-1"), request(context_id="")
    )
    assert other.id != tasks[0].id


async def test_idempotency_key_header_must_be_an_id() -> None:
    """draft-ietf-httpapi-idempotency-key-header puts the text in quotes."""
    agent = LeaseHeld()
    agent.go.set()
    async with http(parts(agent).app()) as client:
        ids = set()
        for method, key in (("SendMessage", '"k-1"'), ("message/send", "k-1")):
            answer = await client.post("/", json=send(method=method), headers={"Idempotency-Key": key})
            result = answer.json()["result"]
            ids.add(result.get("task", result)["id"])
        assert len(ids) == 1
        for method in ("SendMessage", "message/send", "SendStreamingMessage", "message/stream"):
            bad = await client.post("/", json=send(method=method), headers={"Idempotency-Key": "x" * 300})
            assert bad.json()["error"]["code"] == -32602


async def test_repeat_without_context_and_key_creates_task() -> None:
    agent = LeaseHeld()
    agent.go.set()
    made = parts(agent)
    one, two = [await made.service.send(CallContext("owner", "test"), request(context_id="")) for _ in range(2)]
    assert one.id != two.id


async def test_repeat_gets_its_own_task_despite_interrupt() -> None:
    """Another message has answered the interrupt, and the first copy has created a task."""

    class Overtaken(MemoryTaskStore):
        """Freezes after it has read that a task of the context requires input."""

        meanwhile: Callable[[], Awaitable[Any]] | None = None

        async def create(self, *arguments: Any, **options: Any) -> Any:
            outcome = await super().create(*arguments, **options)
            if isinstance(outcome, Interrupted) and self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                await meanwhile()
            return outcome

    store = Overtaken(SystemClock())
    made = parts(Asking(), store)
    call = CallContext("owner", "test")
    asks = await made.service.send(call, request("first"))
    copies = []

    async def others() -> None:
        await made.service.send(call, request("yes", message_id="m-3", task_id=asks.id))
        copies.append(await made.service.send(call, request("second", message_id="m-2")))

    store.meanwhile = others
    copies.append(await made.service.send(call, request("second", message_id="m-2")))
    one, other = copies
    assert one.id == other.id != asks.id
    assert [message.message_id for message in other.history if message.message_id == "m-2"] == ["m-2"]


class Insists(Asking):
    """Requires input again after each answer."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.answers.append(asked.message.message_id)
        yield InputRequired(says("really?"))


async def test_follow_up_repeated_after_key_expiry_runs_once() -> None:
    """The task outlives the key of the message: each event extends its TTL."""
    clock, agent = SystemClock(), Insists()
    store = MemoryTaskStore(clock)
    made, call = parts(agent, store, clock), CallContext("owner", "test")
    task = await made.service.send(call, request())
    answer = request("yes", message_id="m-2", context_id="", task_id=task.id)
    await made.service.send(call, answer)
    await store.table.write(Delete(keys.message_key(ContextKey("owner", "test", "c"), "m-2")))
    again = await made.service.send(call, answer)
    assert agent.answers == ["m-1", "m-2"]
    assert again.id == task.id
    assert isinstance(again, Task)
    assert again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    with pytest.raises(MessageIdReused):
        await made.service.send(call, request("no", message_id="m-2", context_id="", task_id=task.id))


@pytest.mark.parametrize(
    "other",
    [
        {"parts": [Part(text="other")]},
        {"role": Role.ROLE_AGENT},
        {"task_id": "t-2"},
        {"reference_task_ids": ["t-2"]},
        {"extensions": ["https://x.test/extension"]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_content_hash_differs_by(other: dict[str, Any]) -> None:
    """A message with the same id and other content is no repeat."""
    content: dict[str, Any] = {"message_id": "m-1", "role": Role.ROLE_USER, "task_id": "t-1", "parts": [Part(text="a")]}
    message = Message(**content)
    assert admission.content_hash(message) == admission.content_hash(Message(**content, metadata={"trace": "1"}))
    assert admission.content_hash(message) != admission.content_hash(Message(**{**content, **other}))
