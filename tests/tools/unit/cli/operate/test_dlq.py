"""`aion dlq` on the command line, with emulated queues."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap.stores import QUEUES_FILE, build_stores
from aion_core.clock import SystemClock
from aion_core.engine.queues import PushWakeUp, WakeUp, body_of, push_body_of
from aion_core.local.sqlite.message_queue import open_queues
from aion_core.settings import Settings
from aion_core.table.keys import TaskKey
from aion_tools.stack.stack import LocalStack
from tests.support import operating, pushes
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand, refusal, table
from tests.support.pushes import a_config
from tests.support.queues import messages_in

COMMAND = ("dlq",)


@pytest.fixture(scope="module")
def moto() -> Iterator[LocalStack]:
    # Start a stack for this module only, so that messages of other tests are not counted.
    with LocalStack.start("template.yaml") as stack, stack.emulator.no_long_polls():
        yield stack


@pytest.fixture
def clock(clock: ManualClock) -> ManualClock:
    clock.move(-3600)
    return clock


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


def wake_up(chat: StoreConversation) -> str:
    return body_of(WakeUp(chat.context))


def listed(run: RunCommand, queue: str = "task") -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in json.loads(run("list", "--queue", queue, "--json").stdout)}


def test_dlq_list_explains_each_message(run: RunCommand, chat: StoreConversation, moto: LocalStack) -> None:
    asyncio.run(chat.starts("m-1"))
    lost = dead(moto, wake_up(chat))
    unknown = dead(moto, body_of(WakeUp(StoreConversation(chat.store, chat.clock).context)))
    poison = dead(moto, "not of ours")
    lines = {row[0]: row[3:] for row in table(run("list", "--queue", "task"))}
    assert lines[lost] == [
        "pending",
        "The worker of task t-m-1 lost its lease (attempt 1). A wake-up message restarts it.",
    ]
    assert lines[unknown] == ["obsolete", "The context has expired or was deleted. Nothing to do."]
    assert lines[poison][0] == "poison"


def test_dlq_list_prints_messages_of_unreadable_table(
    run: RunCommand, chat: StoreConversation, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, poison = dead(moto, wake_up(chat)), dead(moto, "not of ours")
    push = dead(moto, push_body_of(PushWakeUp(TaskKey("owner", "t-1"), 2)), "PushDeadLetters")
    operating.hook(monkeypatch, "before-call.dynamodb", operating.refuse("AccessDeniedException", "GetItem"))
    ran = run("list", "--json")
    assert ran.exit_code == 0, ran.exception
    found = {each["id"]: each for each in json.loads(ran.stdout)}
    assert {each: found[each]["category"] for each in found} == {turn: "unknown", push: "unknown", poison: "poison"}
    assert found[turn]["status"] == "Its state could not be read. Your AWS credentials lack a permission (GetItem)."
    assert (found[turn]["context"], found[push]["task"]) == ("c-1", "t-1")
    assert "category  unknown" in run("show", turn, "--queue", "task").stdout
    assert "unknown" in run("list").stdout


def test_dlq_list_prints_messages_of_queue_beside_a_deleted_one(run: RunCommand, moto: LocalStack) -> None:
    poison = dead(moto, "not of ours")
    run_elsewhere = operating.runs(
        {**moto.environment("ApiFunction"), "AION_PUSH_QUEUE_URL": f"{moto.endpoint}/1/gone"}
    )
    ran = run_elsewhere("dlq", "list")
    assert table(ran)[0][:2] == [poison, "task"]
    assert refusal(ran).startswith("The dead letters of the push queue were not read. No resource")
    assert (run_elsewhere("dlq", "list", "--json").stdout, ran.exit_code) == ("", 1)


def test_dlq_show_prints_ids_and_leaves_message_in_queue(
    run: RunCommand, chat: StoreConversation, moto: LocalStack
) -> None:
    message = dead(moto, wake_up(chat))
    for _ in range(2):
        shown = run("show", message, "--queue", "task").stdout
        assert f"owner     {chat.context.owner}" in shown
        assert "context   c-1" in shown
    assert bodies(moto, "TaskDeadLetters") == [wake_up(chat)]


def test_dlq_list_shows_state_of_each_messages_context(
    run: RunCommand, chat: StoreConversation, moto: LocalStack
) -> None:
    async def four() -> list[str]:
        contexts = [StoreConversation(chat.store, chat.clock) for _ in range(4)]
        finished, queued, interrupted, running = contexts
        await finished.ends(await finished.starts("m-1"))
        await queued.store.create(queued.message("m-1"), holder=None)
        await interrupted.asks("m-1")
        running.clock.move(3600)
        await running.starts("m-1")
        return [dead(moto, wake_up(each)) for each in contexts]

    ids = asyncio.run(four())
    found = listed(run)
    assert [found[each]["category"] for each in ids] == ["obsolete", "pending", "obsolete", "obsolete"]
    texts = (
        "No turn is running or queued",
        "queued and not started",
        "is waiting for input from its client",
        "lease is valid",
    )
    for each, text in zip(ids, texts, strict=True):
        assert text in found[each]["status"]


def test_dlq_redrive_moves_all_messages_back_to_queue(
    run: RunCommand, chat: StoreConversation, moto: LocalStack
) -> None:
    dead(moto, wake_up(chat))
    poison = dead(moto, "not of ours")
    refused = run("redrive", "--queue", "task", input="n\n")
    assert refused.exit_code == 1
    assert f"Poison messages return after their attempts. Drop them first: `aion dlq drop {poison}`." in refused.stderr
    assert len(bodies(moto, "TaskDeadLetters")) == 2
    redriven = run("redrive", "--queue", "task", "--limit", "1", input="y\n")
    assert redriven.exit_code == 0, redriven.exception
    assert "Redrive to the task queue started." in redriven.stderr
    assert bodies(moto, "TaskQueue") == sorted([wake_up(chat), "not of ours"])
    assert messages_in(moto, "TaskDeadLetters") == 0
    assert "No dead letters" in run("redrive", "--queue", "task", "--yes").stderr


def test_dlq_redrive_during_earlier_redrive_is_refused(
    run: RunCommand, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(moto, "not of ours")
    busy = operating.refuse("AWS.SimpleQueueService.UnsupportedOperation", "StartMessageMoveTask", "There is one")
    operating.hook(monkeypatch, "before-call.sqs.StartMessageMoveTask", busy)
    assert "a redrive of this queue may still be running" in refusal(run("redrive", "--queue", "task", "--yes"))


def test_dlq_drop_deletes_only_named_messages(run: RunCommand, chat: StoreConversation, moto: LocalStack) -> None:
    first, second, third = (dead(moto, body) for body in (wake_up(chat), "not of ours", "nor this"))
    assert run("drop", second, third, "--queue", "task", input="n\n").exit_code == 1
    assert len(bodies(moto, "TaskDeadLetters")) == 3
    assert run("drop", second, third, "--yes", "--queue", "task").exit_code == 0
    assert bodies(moto, "TaskDeadLetters") == [wake_up(chat)]
    assert f"No message {second}" in refusal(run("drop", second, "--yes", "--queue", "task"))
    assert list(listed(run)) == [first]


def test_dlq_drops_message_behind_a_thousand_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the queues of `aion dev`, because the emulator of SQS takes minutes for so many messages."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".aion" / "store"
    build_stores(Settings.from_environ({"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder)}), SystemClock())
    database, now = open_queues(folder / QUEUES_FILE), int(datetime.now(UTC).timestamp() * 1000)
    insert = "INSERT INTO messages (queue, body, sent_at, visible_at, receives, receiver, dead) VALUES (?,?,?,0,5,'',1)"
    database.write_blocking(
        lambda connection: connection.executemany(insert, [("task", "not of ours", now + at) for at in range(1001)])
    )
    run = operating.runs({})
    last = json.loads(run("dlq", "list", "--limit", "2000", "--json").stdout)[-1]["id"]
    assert "1 message deleted." in run("dlq", "drop", last, "--yes").stderr


def test_dlq_commands_accept_end_of_id(run: RunCommand, moto: LocalStack) -> None:
    """A terminal shows only the end of an id."""
    sent = [dead(moto, f"not of ours {number}") for number in range(2)]
    assert f"id        {sent[0]}" in run("show", sent[0][-8:]).stdout
    assert "2 messages deleted." in run("drop", *(each[-8:] for each in sent), "--yes").stderr
    assert listed(run) == {}
    assert "No message 0a1b2c3d in the dead letter queues" in refusal(run("drop", "0a1b2c3d", "--yes"))


def test_dlq_show_reads_no_task_of_other_messages(run: RunCommand, chat: StoreConversation, moto: LocalStack) -> None:
    dead(moto, wake_up(chat))
    poison = dead(moto, "not of ours")
    shown = run("show", poison, "--queue", "task", "--table", "nowhere")
    assert "category  poison" in shown.stdout, shown.output


def test_dlq_list_ends_though_messages_reappear(
    run: RunCommand, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide no message, as in a read that takes longer than HIDDEN_SECONDS."""
    monkeypatch.setattr("aion_tools.operator.sqs_dead_letters.HIDDEN_SECONDS", 0)
    sent = {dead(moto, "not of ours") for _ in range(3)}
    assert set(listed(run)) == sent


def test_dlq_list_prints_each_of_many_messages_once(
    run: RunCommand, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send more messages than one round of concurrent requests receives."""
    monkeypatch.setattr("aion_tools.operator.sqs_dead_letters._BATCH", 3)
    monkeypatch.setattr("aion_tools.operator.sqs_dead_letters.READERS", 2)
    sent = {dead(moto, f"not of ours {number}") for number in range(11)}
    for limit, printed in ((11, 11), (10, 10), (500, 11)):
        ids = [row[0] for row in table(run("list", "--queue", "task", "--limit", limit))]
        assert len(ids) == len(set(ids)) == printed
        assert set(ids) <= sent
    assert messages_in(moto, "TaskDeadLetters") == 11, "all are visible again"


def test_dlq_list_reads_full_queue_by_concurrent_requests(
    run: RunCommand, moto: LocalStack, hold_request: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aion_tools.operator.sqs_dead_letters._BATCH", 3)
    for number in range(10):
        dead(moto, f"not of ours {number}")
    hold_request("sqs.ReceiveMessage", 2)
    assert len(listed(run)) == 10


@pytest.mark.parametrize(("refusals", "hidden"), [(2, 0), (3, 1)])
def test_dlq_list_retries_release_and_reports_hidden_messages(
    run: RunCommand, moto: LocalStack, monkeypatch: pytest.MonkeyPatch, refusals: int, hidden: int
) -> None:
    dead(moto, "not of ours")
    dead(moto, "nor this")
    count = itertools.count(1)

    def refuse(parsed: dict[str, Any], **_: object) -> None:
        """Do not release the first message of the first batches."""
        if next(count) <= refusals:
            parsed["Failed"] = [{"Id": "0", "SenderFault": False, "Code": "InternalError"}]

    operating.hook(monkeypatch, "after-call.sqs.ChangeMessageVisibilityBatch", refuse)
    shown = run("list", "--queue", "task")
    assert len(table(shown)) == 2
    text = "SQS did not release 1 message, which may stay hidden for 60 seconds.\n"
    assert shown.stderr == (text if hidden else "")
    assert next(count) == 4, "three requests were sent"


def test_dlq_shows_webhooks_of_push_message_that_names_no_events(run: RunCommand, moto: LocalStack) -> None:
    push = pushes.on_table(moto, ManualClock())

    async def create() -> TaskKey:
        new = push.chat.message("m-1")
        await push.chat.store.create(new, holder="holder-1")
        await push.configs.put(new.key, a_config("mine"))
        return new.key

    key = asyncio.run(create())
    ready = dead(moto, push_body_of(PushWakeUp(key, 2)), "PushDeadLetters")
    gone = dead(moto, push_body_of(PushWakeUp(TaskKey(key.owner, "t-never"), 2)), "PushDeadLetters")
    found = listed(run, "push")
    assert (found[ready]["category"], found[ready]["task"]) == ("pending", "t-m-1")
    assert "Events for mine are ready" in found[ready]["status"]
    assert found[gone]["status"] == "The task has expired or was deleted. Nothing to deliver."
    assert "hidden" not in json.dumps(found)


def test_dlq_reads_queue_urls_from_stack_or_environment(moto: LocalStack) -> None:
    stack = operating.registered(moto)
    assert operating.runs(operating.environ_of(moto))("dlq", "list", "--queue", "push", "--stack", stack).exit_code == 0
    environ = moto.environment("TaskFunction") | {"AION_PUSH_QUEUE_URL": ""}
    failed = operating.runs(environ)("dlq", "list", "--queue", "push")
    assert failed.exit_code == 2
    assert "set AION_PUSH_QUEUE_URL" in " ".join(failed.stderr.split())
