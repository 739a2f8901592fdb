"""Items stored by version 1: every store method can read and change them.

Version 1 wrote the items in `items_of_version_1.json`. They have no `line`, no handoffs and no timers.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.context.conditions import MAX_WAITING
from aion_core.engine.new_messages import WhenBusy
from aion_core.engine.outcomes import ContextInUse, Duplicate, Interrupted, LeaseHeld, TurnQueued, TurnStarted
from aion_core.engine.records import Lease, StoppedBy, Turn
from aion_core.engine.timers import ExpiredTimer
from aion_core.errors import ContextBusy, LeaseLost
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.engines import Stack
from tests.support.stores import LEASE_SECONDS, dynamodb_store, new_owner

pytestmark = pytest.mark.long

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "items_of_version_1.json").read_text())

TASKS = {
    "free": ["t-m-1"],
    "running": ["t-m-1x"],
    "busy": ["t-m-1y", "t-m-2y", "t-m-3y"],
    "waiting": ["t-m-1z", "t-m-2z", "t-m-3z"],
    "asking": ["t-m-1q", "t-m-2q"],
}


class Yesterday:
    """Stored items of version 1, with their times moved to the present; a test selects a context by its name."""

    def __init__(self, stack: Stack, clock: ManualClock) -> None:
        self._store, self._clock, self._owner = dynamodb_store(stack, clock), clock, new_owner()
        table, client = stack.environment("ApiFunction")["AION_TABLE"], stack.client("dynamodb")
        since = int(clock.now().timestamp() * 1000) - WRITTEN["at"]
        puts = [
            {"PutRequest": {"Item": {name: self._as_now(name, attribute, since) for name, attribute in item.items()}}}
            for item in WRITTEN["items"]
        ]
        for start in range(0, len(puts), 25):
            client.batch_write_item(RequestItems={table: puts[start : start + 25]})

    def _as_now(self, name: str, attribute: dict[str, Any], since: int) -> dict[str, Any]:
        match name, attribute:
            case "pk", {"S": key}:
                return {"S": key.replace("OWNER", self._owner)}
            case "expires", {"N": at}:
                return {"N": str(int(at) + since // 1000)}
            case "until" | "timestamp", {"N": at}:
                return {"N": str(int(at) + since)}
            case _, {"B": packed}:
                return {"B": base64.b64decode(packed)}
        return attribute

    def chat(self, name: str) -> StoreConversation:
        chat = StoreConversation(self._store, self._clock, ContextKey(self._owner, "echo", name))
        chat.tasks = list(TASKS[name])
        return chat


@pytest.fixture
def yesterday(stack: Stack, clock: ManualClock) -> Yesterday:
    return Yesterday(stack, clock)


async def lease_of(chat: StoreConversation) -> TurnStarted:
    """Return the running turn of a context with its lease, as version 1 stored it."""
    task_id = chat.tasks[0]
    turn = Turn(task_id.replace("t-", "turn-"), task_id, message_generation=1, tries=1)
    return TurnStarted(Lease(chat.context, turn, "h", 1), await chat.head(task_id))


async def test_task_logs_in_old_format_are_read(yesterday: Yesterday) -> None:
    running = yesterday.chat("running")
    log = await running.store.log(running.key("t-m-1x"))
    assert log is not None
    assert [(entry.generation, entry.key) for entry in log.events] == [(1, ""), (2, ""), (3, "node:1/0")]
    assert log.events[0].request == {"network": "n"}
    tail = await running.store.log(running.key("t-m-1x"), after=2)
    assert tail is not None
    assert tail.events == log.events[2:]
    assert await yesterday.chat("asking").state("t-m-1q") == "input-required"
    assert await yesterday.chat("free").said("t-m-1") == ["m-1"]


@pytest.mark.parametrize(("name", "message_id"), [("free", "m-1"), ("busy", "m-3y"), ("asking", "m-1q")])
async def test_old_format_messages_are_recognised_as_duplicates(
    yesterday: Yesterday, name: str, message_id: str
) -> None:
    chat = yesterday.chat(name)
    again = chat.message(message_id, task_id="again")
    for holder in ("holder-1", None):
        assert await chat.store.create(again, holder=holder) == Duplicate(f"t-{message_id}")
    assert await chat.store.known(chat.context, message_id, again.content_hash) == Duplicate(f"t-{message_id}")


@pytest.mark.parametrize("holder", ["holder-1", None])
async def test_old_format_contexts_accept_new_tasks(yesterday: Yesterday, holder: str | None) -> None:
    for name, kind in (("free", TurnStarted), ("running", TurnQueued), ("busy", TurnQueued), ("waiting", TurnQueued)):
        chat = yesterday.chat(name)
        outcome = await chat.store.create(chat.message("new"), holder=holder)
        assert isinstance(outcome, kind if holder else TurnQueued), name
        chat.tasks.append("t-new")
        await chat.comes_to_rest()
    chat = yesterday.chat("asking")
    assert await chat.store.create(chat.message("new"), holder=holder) == Interrupted("t-m-1q")


async def test_busy_contexts_in_old_format_refuse_messages(yesterday: Yesterday) -> None:
    for name, task_id in (("running", "t-m-1x"), ("busy", "t-m-1y"), ("waiting", "t-m-2z")):
        chat = yesterday.chat(name)
        outcome = await chat.store.create(chat.message("new"), holder=None, when_busy=WhenBusy.REJECT)
        assert outcome == ContextInUse(task_id)
    chat = yesterday.chat("busy")
    for number in range(MAX_WAITING - 2):
        await chat.waits(f"new-{number}")
    with pytest.raises(ContextBusy):
        await chat.waits("late")


async def test_queued_turns_in_old_format_begin_in_order(yesterday: Yesterday) -> None:
    chat = yesterday.chat("waiting")
    turn = await chat.begins()
    assert turn.lease.turn == Turn("turn-m-2z", "t-m-2z", message_generation=1, tries=1, handoffs=0)
    assert turn.lease.fence == 2
    following = (await chat.ends(turn, run_next=True)).next
    assert following is not None
    assert following.lease.turn.id == "turn-m-3z"
    await chat.comes_to_rest()


async def test_another_worker_resumes_old_format_turns(yesterday: Yesterday) -> None:
    chat = yesterday.chat("busy")
    old = await lease_of(chat)
    held = await chat.store.begin(chat.context, holder="holder-2")
    assert isinstance(held, LeaseHeld)
    assert held.fence == old.lease.fence
    chat.clock.move(LEASE_SECONDS + 1)
    turn = await chat.begins()
    assert turn.lease.turn == replace(old.lease.turn, tries=2, stopped_by=StoppedBy.WORKER)
    assert not chat.store.holds(old.lease)
    with pytest.raises(LeaseLost):
        await chat.ends(old)
    await chat.comes_to_rest()


async def test_old_format_leases_are_valid(yesterday: Yesterday) -> None:
    for name in ("running", "busy"):
        chat = yesterday.chat(name)
        turn = await lease_of(chat)
        assert chat.store.renew(turn.lease)
        assert chat.store.holds(turn.lease)
        head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head))
        following = (await chat.ends(replace(turn, head=head), run_next=True)).next
        assert (following is not None) is (name == "busy")
        await chat.comes_to_rest()


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED])
@pytest.mark.parametrize("name", ["running", "busy"])
async def test_old_format_turns_can_finish(yesterday: Yesterday, name: str, state: Any) -> None:
    chat = yesterday.chat(name)
    ended = await chat.ends(await lease_of(chat), state)
    assert ended.waiting is (name == "busy" and state == COMPLETED)
    await chat.comes_to_rest()


async def test_old_format_turns_can_be_suspended(yesterday: Yesterday) -> None:
    chat = yesterday.chat("busy")
    await chat.store.pause((await lease_of(chat)).lease, made_progress=True)
    turn = await chat.begins()
    assert (turn.lease.turn.id, turn.lease.turn.tries, turn.lease.turn.handoffs) == ("turn-m-1y", 1, 1)
    await chat.comes_to_rest()


@pytest.mark.parametrize("holder", ["holder-1", None])
async def test_old_format_interrupts_can_be_answered(yesterday: Yesterday, holder: str | None) -> None:
    chat = yesterday.chat("asking")
    outcome = await chat.store.follow_up(await chat.more(await chat.head("t-m-1q"), "answer"), holder=holder)
    assert isinstance(outcome, TurnStarted if holder else TurnQueued)
    await chat.comes_to_rest()
    assert await chat.said("t-m-1q") == ["m-1q", "answer"]
    assert await chat.state("t-m-2q") == "completed"


async def test_interrupt_in_old_format_can_be_answered_near_expiry(yesterday: Yesterday) -> None:
    chat = yesterday.chat("asking")
    chat.clock.move(29 * 24 * 3600)
    turn = await chat.store.follow_up(await chat.more(await chat.head("t-m-1q"), "answer"), holder="holder-2")
    assert isinstance(turn, TurnStarted)
    await chat.ends(turn)
    chat.clock.move(5 * 24 * 3600)
    assert await chat.said("t-m-1q") == ["m-1q", "answer"]


async def test_old_format_running_tasks_accept_messages(yesterday: Yesterday) -> None:
    chat = yesterday.chat("busy")
    await chat.queues("t-m-1y", "more-1")
    await chat.queues("t-m-3y", "more-3")
    turn = await lease_of(chat)
    assert (await chat.ends(turn, WORKING)).waiting
    await chat.comes_to_rest()
    assert await chat.said("t-m-1y") == ["m-1y", "more-1"]
    assert await chat.said("t-m-3y") == ["m-3y", "more-3"]


@pytest.mark.parametrize("holder", ["holder-1", None])
async def test_message_can_interrupt_running_turn_in_old_format(yesterday: Yesterday, holder: str | None) -> None:
    for name in ("running", "busy"):
        chat = yesterday.chat(name)
        turn = await lease_of(chat)
        more = await chat.more(turn.head, "more")
        outcome = await chat.store.follow_up(more, holder=holder, when_busy=WhenBusy.INTERRUPT)
        assert isinstance(outcome, TurnStarted if holder else TurnQueued)
        assert not chat.store.holds(turn.lease)
        await chat.comes_to_rest()


@pytest.mark.parametrize(("name", "task_id"), [(n, t) for n, tasks in TASKS.items() for t in tasks if n != "free"])
async def test_old_format_tasks_can_be_canceled(yesterday: Yesterday, name: str, task_id: str) -> None:
    chat = yesterday.chat(name)
    if task_id == "t-m-1z":
        return  # skip this task, because it had already ended
    ended = await chat.cancels(task_id)
    assert await chat.state(task_id) == "canceled"
    assert ended.waiting is (task_id in ("t-m-1y", "t-m-2z", "t-m-3z", "t-m-1q"))
    if name == "busy" and task_id != "t-m-1y":
        assert chat.store.renew((await lease_of(chat)).lease)
        await chat.store.pause((await lease_of(chat)).lease, made_progress=True)
    await chat.comes_to_rest()


async def test_sweep_does_not_claim_old_format_contexts_without_timer(yesterday: Yesterday) -> None:
    for name in TASKS:
        chat = yesterday.chat(name)
        chat.clock.move(LEASE_SECONDS + 1)
        assert not await chat.store.claim(ExpiredTimer(chat.context, chat.clock.now()))
        assert not await chat.is_expired()
