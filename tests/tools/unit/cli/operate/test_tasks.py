"""`aion tasks` on the command line, in SQLite files and on an emulated stack."""

import asyncio
import json
from collections.abc import Callable

import pytest
from a2a.types import Artifact, Part, TaskArtifactUpdateEvent, TaskState

from aion_core.agents.questions import Question, question_message
from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in
from aion_core.table import keys
from aion_core.table.keys import ContextKey
from aion_tools.stack.stack import LocalStack
from tests.support import operating
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand, refusal, table
from tests.support.pushes import Pushes, a_config
from tests.support.rows import each_row
from tests.support.stores import dynamodb_table

COMMAND = ("tasks",)


def test_task_list_shows_tasks_of_owner_newest_first(run: RunCommand, chat: StoreConversation) -> None:
    async def two() -> None:
        await chat.ends(await chat.starts("m-1"))
        chat.clock.move(1)
        await chat.starts("m-2")

    asyncio.run(two())
    owner = ("--owner", chat.context.owner, "--agent", "echo")
    listed = run("list", *owner)
    assert listed.stdout.split()[:6] == ["TASK", "STATE", "SINCE", "OWNER", "AGENT", "CONTEXT"]
    assert [row[:2] for row in table(listed)] == [["t-m-2", "working"], ["t-m-1", "completed"]]
    assert [each["task"] for each in json.loads(run("list", *owner, "--state", "working", "--json").stdout)] == [
        "t-m-2"
    ]
    assert len(table(run("list", *owner, "--context", "c-1"))) == 2
    assert run("list", *owner, "--context", "c-2").stdout == ""


@pytest.mark.usefixtures("moto", "empty_table")
def test_task_list_reads_tasks_by_concurrent_requests(
    run: RunCommand, chat: StoreConversation, hold_request: Callable[[str, int], None]
) -> None:
    # Start the turns an hour ago, because the command uses the machine's clock.
    chat.clock.move(-3600)
    other = StoreConversation(chat.store, chat.clock, ContextKey(chat.context.owner, "echo", "c-2"))
    asyncio.run(chat.starts("m-1"))
    asyncio.run(other.starts("m-2"))
    for options in (("--owner", chat.context.owner, "--agent", "echo"), ("--expired",)):
        hold_request("dynamodb.GetItem", 1)
        assert {row[0] for row in table(run("list", *options))} == {"t-m-1", "t-m-2"}


def test_task_list_accepts_subject_instead_of_owner_id(run: RunCommand, chat: StoreConversation) -> None:
    owner = owner_in(Principal(API_KEY_ISSUER, "alice@example.com").owner, "red")
    hers = StoreConversation(chat.store, chat.clock, ContextKey(owner, "echo", "c-1"))
    asyncio.run(hers.starts("m-1", task_id="t-hers"))
    subject = ("--subject", "alice@example.com", "--tenant", "red")
    assert table(run("list", *subject, "--agent", "echo"))[0][0] == "t-hers"
    assert owner in run("show", "t-hers", *subject).stdout
    assert "no task t-hers of this owner" in refusal(run("show", "t-hers", "--subject", "alice@example.com"))


@each_row(
    "arguments",
    [
        ("list",),
        ("list", "--owner", "o"),
        ("list", "--owner", "o", "--scan"),
        ("list", "--expired", "--context", "c"),
        ("list", "--owner", "o", "--subject", "s", "--agent", "a"),
        ("list", "--tenant", "t", "--scan"),
        ("show", "t-1"),
        ("show", "t-1", "--owner", "o", "--scan"),
        ("cancel", "t-1", "--yes"),
    ],
)
def test_task_commands_refuse_missing_or_contradictory_options(run: RunCommand, arguments: tuple[str, ...]) -> None:
    failed = run(*arguments)
    assert failed.exit_code == 2
    assert failed.stderr.startswith("Usage: ")


def test_task_scan_finds_task_of_any_owner(run: RunCommand, chat: StoreConversation) -> None:
    task_id = f"t-{chat.context.owner}"
    asyncio.run(chat.starts("m-1", task_id=task_id))
    assert f" {chat.context.owner}\n" in run("show", task_id, "--scan").stdout
    listed = table(run("list", "--scan", "--state", "working", "--limit", "1000"))
    assert [row[0] for row in listed if chat.context.owner == row[3]] == [task_id]
    assert "no task t-never;" in refusal(run("show", "t-never", "--scan"))


@pytest.mark.usefixtures("moto")
def test_task_list_of_development_server_needs_no_owner(chat: StoreConversation, run_in_project: RunCommand) -> None:
    task_id, run = f"t-{chat.context.owner}", run_in_project
    asyncio.run(chat.starts("m-1", task_id=task_id))
    assert task_id in run("tasks", "list", "--limit", "1000").stdout
    assert f" {chat.context.owner}\n" in run("tasks", "show", task_id).stdout
    assert f"Task {task_id} is canceled." in run("tasks", "cancel", task_id, "--yes").stdout


def test_scanned_tasks_are_listed_newest_first(run: RunCommand, chat: StoreConversation) -> None:
    async def several() -> None:
        for number in range(5):
            await chat.ends(await chat.starts(f"m-{number}"))
            chat.clock.move(1)

    asyncio.run(several())
    times = [each["since"] for each in json.loads(run("list", "--scan", "--json").stdout)]
    assert times == sorted(times, reverse=True)
    assert [each["since"] for each in json.loads(run("list", "--scan", "--json", "--limit", "3").stdout)] == times[:3]


def test_task_show_prints_events_lease_and_waiting_messages(run: RunCommand, chat: StoreConversation) -> None:
    async def busy() -> None:
        begun = await chat.starts("m-1", text="a private word")
        await chat.store.append(begun.lease, begun.head, chat.says(begun.head, text="a private answer"))
        await chat.waits("m-2")
        await chat.waits("m-3")

    asyncio.run(busy())
    owner = ("--owner", chat.context.owner)
    shown = run("show", "t-m-1", *owner).stdout
    words = " ".join(shown.split())
    for part in (
        "state working since ",
        "generation 3 fence 1",
        "Task t-m-1 is running and its lease is valid",
        "holder holder-1 lease until ",
        "running: turn turn-m-1 task t-m-1 attempts 1",
        "waiting: TURN TASK ATTEMPTS HANDOFFS turn-m-2 t-m-2 0 0 turn-m-3 t-m-3 0 0",
        "events: NUMBER KIND AT 1 task, submitted",
    ):
        assert part in words
    assert "private" not in shown
    whole = run("show", "t-m-1", *owner, "--content").stdout
    assert "a private word" in whole
    assert "a private answer" in whole
    (document,) = json.loads(run("show", "t-m-1", *owner, "--json").stdout)
    assert document["contextState"]["holder"] == "holder-1"
    assert [turn["task"] for turn in document["contextState"]["waiting"]] == ["t-m-2", "t-m-3"]
    assert "private" not in json.dumps(document)


@pytest.mark.parametrize("ids", [["i-1", "i-2"], []])
def test_task_show_prints_what_task_waits_for(run: RunCommand, chat: StoreConversation, ids: list[str]) -> None:
    async def asks() -> None:
        begun = await chat.starts("m-1")
        question = chat.says(begun.head, TaskState.TASK_STATE_INPUT_REQUIRED, "which?")
        if ids:
            question.status.message.MergeFrom(question_message([Question(each, "which?") for each in ids]))
        await chat.store.finish(begun.lease, begun.head, question)

    asyncio.run(asks())
    owner = ("--owner", chat.context.owner)
    assert f"interrupts {', '.join(ids) or '-'}" in " ".join(run("show", "t-m-1", *owner).stdout.split())
    (document,) = json.loads(run("show", "t-m-1", *owner, "--json").stdout)
    assert document["interrupts"] == ids


def test_task_show_escapes_control_characters_of_artifact(run: RunCommand, chat: StoreConversation) -> None:
    async def write() -> None:
        begun = await chat.starts("m-1")
        artifact = Artifact(artifact_id="a\x1b]0;owned\x07", parts=[Part(text="x")])
        update = TaskArtifactUpdateEvent(task_id=begun.head.key.task_id, artifact=artifact)
        await chat.store.append(begun.lease, begun.head, update)

    asyncio.run(write())
    assert r"artifact a\x1b]0;owned\x07, 1 parts" in run("show", "t-m-1", "--owner", chat.context.owner).stdout


def test_task_list_and_show_report_expired_lease(run: RunCommand, chat: StoreConversation) -> None:
    # Start the turn an hour ago, because the command uses the machine's clock.
    chat.clock.move(-3600)
    asyncio.run(chat.starts("m-1"))

    def expired(*options: str) -> list[str]:
        return [row[0] for row in table(run("list", "--expired", *options)) if row[3] == chat.context.owner]

    assert expired() == expired("--agent", "echo", "--state", "working") == ["t-m-1"]
    assert expired("--agent", "another") == expired("--state", "completed") == []
    shown = run("show", "t-m-1", "--owner", chat.context.owner).stdout
    assert "The worker of task t-m-1 lost its lease (attempt 1)" in shown


def test_task_show_prints_webhooks_without_secrets(run: RunCommand, push: Pushes) -> None:
    task_id = f"t-{push.chat.context.owner}"

    async def told() -> None:
        new = push.chat.message("m-1", task_id=task_id)
        begun = await push.chat.store.create(new, holder="holder-1")
        await push.configs.put(new.key, a_config("mine"))
        head = await push.chat.head(task_id)
        await push.chat.store.append(begun.lease, head, push.chat.says(head))  # type: ignore[union-attr]

    asyncio.run(told())
    shown = run("show", task_id, "--owner", push.chat.context.owner).stdout
    assert " mine " in shown.partition("webhooks:")[2]
    assert "undelivered events  3\n" in shown
    assert "hidden" not in shown


def test_confirmed_cancel_of_task_enqueues_next_turn_of_its_context(
    run: RunCommand, chat: StoreConversation, moto: LocalStack
) -> None:
    async def busy() -> None:
        await chat.starts("m-1")
        await chat.waits("m-2")

    asyncio.run(busy())
    owner = ("--owner", chat.context.owner)
    refused = run("cancel", "t-m-1", *owner, input="n\n")
    assert refused.exit_code == 1
    assert asyncio.run(chat.state("t-m-1")) == "working"
    assert run("cancel", "t-m-1", *owner, input="y\n").stdout == "Task t-m-1 is canceled.\n"
    assert asyncio.run(chat.state("t-m-1")) == "canceled"
    asked = {"QueueUrl": moto.physical_id("TaskQueue"), "MaxNumberOfMessages": 10}
    bodies = []
    # Read all messages, because the queue may also contain messages of other tests.
    while messages := moto.client("sqs").receive_message(**asked).get("Messages"):
        bodies += [message["Body"] for message in messages]
    assert any(chat.context.owner in body for body in bodies), "a wake-up message is enqueued for the queued turn"
    assert "Task cannot be canceled: it is " in refusal(run("cancel", "t-m-1", *owner, "--yes"))


def test_cancel_by_operator_uses_retention_time_of_stack(chat: StoreConversation, moto: LocalStack) -> None:
    asyncio.run(chat.starts("m-1"))
    name = operating.registered(moto, "aion-kept", RetentionDays="365")
    run = operating.runs(operating.environ_of(moto))
    assert run("tasks", "cancel", "t-m-1", "--owner", chat.context.owner, "--yes", "--stack", name).exit_code == 0
    item = dynamodb_table(moto).get_blocking(keys.event_key(chat.key("t-m-1"), 3))
    assert item is not None
    days = (item["expires"] - chat.clock.now().timestamp()) / 86400
    assert 364 < days < 366
