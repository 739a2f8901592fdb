"""`aion dlq`, run as an operator runs it, on emulated queues."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from aion_core.local.stack import LocalStack
from aion_core.ports import PushWakeUp, TaskKey, WakeUp
from aion_core.ports.queues import body_of, push_body_of
from tests.support import operating, pushes
from tests.support.clock import ManualClock
from tests.support.conversation import Conversation
from tests.support.operating import EventBroadcast, refusal
from tests.support.pushes import a_config
from tests.support.queues import messages_in
from tests.support.stores import dynamodb_store


@pytest.fixture(scope="module")
def moto() -> Iterator[LocalStack]:
    # Queues of its own: what others leave in theirs is not to be counted.
    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture
def run(moto: LocalStack) -> EventBroadcast:
    run = operating.runs(moto.environment("ApiFunction"))
    return lambda command, *arguments, **options: run("dlq", command, *arguments, **options)


@pytest.fixture
def chat(moto: LocalStack, clock: ManualClock) -> Conversation:
    clock.move(-3600)
    return Conversation(dynamodb_store(moto, clock), clock)


@pytest.fixture(autouse=True)
def _empty(moto: LocalStack) -> Iterator[None]:
    yield
    sqs = moto.client("sqs")
    for url in map(moto.physical_id, ("TaskQueue", "TaskDeadLetters", "PushQueue", "PushDeadLetters")):
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def dead(moto: LocalStack, body: str, queue: str = "TaskDeadLetters") -> str:
    sqs = moto.client("sqs")
    sent: dict[str, Any] = sqs.send_message(QueueUrl=moto.physical_id(queue), MessageBody=body, MessageGroupId="one")
    return str(sent["MessageId"])


def bodies(moto: LocalStack, queue: str) -> list[str]:
    sqs = moto.client("sqs")
    found = sqs.receive_message(QueueUrl=moto.physical_id(queue), MaxNumberOfMessages=10, VisibilityTimeout=0)
    return sorted(message["Body"] for message in found.get("Messages", []))


def wake_up(chat: Conversation) -> str:
    return body_of(WakeUp(chat.context))


def test_each_bell_is_explained_by_what_the_table_says_of_it_now(
    run: EventBroadcast, chat: Conversation, moto: LocalStack
) -> None:
    asyncio.run(chat.starts("m-1"))
    gone = dead(moto, wake_up(chat))
    unknown = dead(moto, body_of(WakeUp(Conversation(chat.store, chat.clock).context)))
    poison = dead(moto, "not of ours")
    listed = {line.split("\t")[0]: line.split("\t")[3:] for line in run("list", "--queue", "task").stdout.splitlines()}
    assert listed[gone] == ["enqueue", "The worker of task t-m-1 is gone (begun 1 times): a bell has it taken over."]
    assert listed[unknown] == ["idle", "The context is gone: nothing is left to do."]
    assert listed[poison][0] == "poison"
    shown = run("show", gone, "--queue", "task").stdout
    assert f"owner       {chat.context.owner}" in shown
    assert "context     c-1" in shown
    # They were given back: whoever looks again sees them again.
    assert len(json.loads(run("list", "--queue", "task", "--json").stdout)) == 3
    assert len(bodies(moto, "TaskDeadLetters")) == 3


def test_a_context_at_rest_one_that_waits_and_one_that_asks_are_told_apart(
    run: EventBroadcast, chat: Conversation, moto: LocalStack
) -> None:
    async def three() -> list[str]:
        contexts = [Conversation(chat.store, chat.clock) for _ in range(4)]
        rests, waits, asks, works = contexts
        await rests.ends(await rests.starts("m-1"))
        await waits.store.create(waits.message("m-1"), holder=None)
        await asks.asks("m-1")
        works.clock.move(3600)
        await works.starts("m-1")
        return [dead(moto, wake_up(each)) for each in contexts]

    ids = asyncio.run(three())
    said = {each["id"]: each for each in json.loads(run("list", "--queue", "task", "--json").stdout)}
    assert [said[each]["doesSomething"] for each in ids] == [False, True, False, False]
    for each, words in zip(
        ids, ("at rest", "nobody has begun it", "waits for its client", "its lease lives"), strict=True
    ):
        assert words in said[each]["now"]


def test_bells_are_rung_again_and_a_second_time_does_no_harm(
    run: EventBroadcast, chat: Conversation, moto: LocalStack
) -> None:
    asyncio.run(chat.starts("m-1"))
    dead(moto, wake_up(chat))
    poison = dead(moto, "not of ours")
    tried = run("redrive", "--all", "--dry-run", "--queue", "task")
    assert "dry run" in tried.stderr
    assert (len(bodies(moto, "TaskDeadLetters")), bodies(moto, "TaskQueue")) == (2, [])
    assert run("redrive", "--all", "--queue", "task", input="n\n").exit_code == 1
    assert len(bodies(moto, "TaskDeadLetters")) == 2
    driven = run("redrive", "--all", "--queue", "task", input="y\n")
    assert driven.exit_code == 0
    assert f"{poison}: left." in driven.stderr
    assert bodies(moto, "TaskQueue") == [wake_up(chat)]
    assert bodies(moto, "TaskDeadLetters") == ["not of ours"]
    assert messages_in(moto, "TaskDeadLetters") == 1, "what is rung is taken out, and not only hidden"
    assert run("redrive", "--all", "--queue", "task", "--yes").exit_code == 0
    assert bodies(moto, "TaskQueue") == [wake_up(chat)]


def test_one_message_is_rung_or_thrown_away_by_its_id_and_the_others_stay(
    run: EventBroadcast, chat: Conversation, moto: LocalStack
) -> None:
    first, second, third = (dead(moto, body) for body in (wake_up(chat), "not of ours", "nor this"))
    assert run("redrive", first, "--yes", "--queue", "task").exit_code == 0
    assert run("drop", second, "--yes", "--queue", "task").exit_code == 0
    assert bodies(moto, "TaskDeadLetters") == ["nor this"]
    assert bodies(moto, "TaskQueue") == [wake_up(chat)]
    assert f"No message {second}" in refusal(run("drop", second, "--yes", "--queue", "task"))
    assert third in run("list", "--queue", "task").stdout


@pytest.mark.parametrize("command", ["redrive", "drop"])
def test_which_messages_has_to_be_said(run: EventBroadcast, command: str) -> None:
    for arguments in ((), ("some-id", "--all")):
        assert run(command, *arguments, "--queue", "task", "--yes").exit_code == 2


def test_a_bell_of_a_notification_is_explained_by_who_has_yet_to_hear(run: EventBroadcast, moto: LocalStack) -> None:
    push = pushes.on_table(moto, ManualClock())

    async def told() -> TaskKey:
        new = push.chat.message("m-1")
        await push.chat.store.create(new, holder="holder-1")
        await push.configs.put(new.key, a_config("mine"))
        return new.key

    key = asyncio.run(told())
    due = dead(moto, push_body_of(PushWakeUp(key, 2)), "PushDeadLetters")
    gone = dead(moto, push_body_of(PushWakeUp(TaskKey(key.owner, "t-never"), 2)), "PushDeadLetters")
    said = {each["id"]: each for each in json.loads(run("list", "--queue", "push", "--json").stdout)}
    assert (said[due]["doesSomething"], said[due]["task"]) == (True, "t-m-1")
    assert "for mine" in said[due]["now"]
    assert said[gone]["now"] == "The task is gone: nothing is left to be told."
    assert "hidden" not in json.dumps(said)


def test_the_queues_come_from_the_stack_or_from_the_environment(moto: LocalStack) -> None:
    stack = operating.registered(moto)
    assert operating.runs(operating.environ_of(moto))("dlq", "list", "--queue", "push", "--stack", stack).exit_code == 0
    environ = moto.environment("TaskFunction") | {"AION_PUSH_QUEUE_URL": ""}
    failed = operating.runs(environ)("dlq", "list", "--queue", "push")
    assert failed.exit_code == 2
    assert "set AION_PUSH_QUEUE_URL" in " ".join(failed.stderr.split())
