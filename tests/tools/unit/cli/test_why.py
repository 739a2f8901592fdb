"""`aion why`: the story of a task, in SQLite files and on an emulated stack."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.tenants import owner_in
from aion_core.engine.queues import PushWakeUp, WakeUp, body_of, push_body_of
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.protocol.types import Message, TaskState
from aion_core.table import keys
from aion_core.table.keys import ContextKey, owner_folder
from aion_core.table.times import moment
from aion_tools.dev.data_folder import LOG
from aion_tools.stack.stack import LocalStack
from tests.support import operating
from tests.support.conversation import FAILED, StoreConversation
from tests.support.operating import RunCommand, refusal
from tests.support.pushes import Pushes, a_config

COMMAND = ("why",)

Write = Callable[..., None]


@pytest.fixture(scope="module")
def stack(moto: LocalStack) -> str:
    return operating.registered(moto, "aion-why")


@pytest.fixture
def write(moto: LocalStack, stack: str) -> Write:
    """Write a log line of a function to CloudWatch Logs."""
    logs = moto.client("logs")

    def write(function: str, **fields: object) -> None:
        group = f"/aws/lambda/{stack}-{function}"
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            logs.create_log_group(logGroupName=group)
            logs.create_log_stream(logGroupName=group, logStreamName="one")
        event = {"timestamp": int(time.time() * 1000), "message": json.dumps(fields)}
        logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=[event])

    return write


def now(printed: str) -> str:
    return printed.split("Now: ")[1].strip()


def story(printed: str) -> list[str]:
    return [line[25:] for line in printed.split("Now: ")[0].splitlines()[2:] if line]


def test_why_fails_for_unknown_task(run: RunCommand) -> None:
    failed = run("t-never", "--owner", "o")
    assert "There is no task t-never of this owner" in refusal(failed)
    assert failed.exit_code == 1
    assert "There is no task t-never; it may have expired." in refusal(run("t-never"))
    unnamed = run()
    assert (unnamed.exit_code, "Name the task: aion why TASK_ID." in unnamed.stderr) == (2, True)


def test_why_prints_message_texts_only_with_content_option(run: RunCommand, chat: StoreConversation) -> None:
    async def one() -> None:
        begun = await chat.starts("m-1", text="a private word")
        await chat.ends(begun, text="a private answer")

    asyncio.run(one())
    printed = run("t-m-1", "--owner", chat.context.owner).stdout
    assert story(printed)[:2] == [
        f"The client {chat.context.owner} sent the message m-1 to the agent echo.",
        "The agent completed the task.",
    ]
    assert now(printed).startswith("The task completed at ")
    assert "private" not in printed
    whole = run("t-m-1", "--owner", chat.context.owner, "--content").stdout
    assert "to the agent echo: “a private word”." in whole
    assert "completed the task: “a private answer”." in whole


def test_why_places_log_lines_at_their_own_times(run: RunCommand, chat: StoreConversation, write: Write) -> None:
    """Write the lines at the end of the invocation, whose time the log group then has for all of them."""

    async def one() -> None:
        begun = await chat.starts("m-1")
        chat.clock.move(1)
        line = {"task_id": "t-m-1", "context_id": chat.context.context_id}
        lines.append(line | {"message": "A turn begins.", "timestamp": chat.clock.now().isoformat()})
        chat.clock.move(1)
        await chat.ends(begun)
        for name in ("no time", "2026-11-22T21:14:02"):
            lines.append(line | {"level": "ERROR", "message": name, "timestamp": name})

    lines: list[dict[str, str]] = []
    chat.clock.move(-10)
    asyncio.run(one())
    for line in lines:
        write("api", **line)
    assert story(run("t-m-1", "--owner", chat.context.owner, "--stack", "aion-why").stdout) == [
        f"The client {chat.context.owner} sent the message m-1 to the agent echo.",
        "The API function began the turn.",
        "The agent completed the task.",
        "The API function logged: no time",
        "The API function logged: 2026-11-22T21:14:02",
    ]


def test_why_command_lists_interrupt_its_answer_and_cancellation(run: RunCommand, chat: StoreConversation) -> None:
    async def asked() -> None:
        head = await chat.asks("m-1")
        chat.clock.move(5)
        await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
        chat.clock.move(1)
        await chat.cancels("t-m-1")

    asyncio.run(asked())
    owner = chat.context.owner
    printed = run("t-m-1", "--owner", owner).stdout
    assert story(printed)[:4] == [
        f"The client {owner} sent the message m-1 to the agent echo.",
        "The agent asked the client for input.",
        f"The client {owner} answered.",
        "The task was canceled.",
    ]
    assert now(printed).startswith("The task was canceled at ")


@pytest.mark.parametrize(
    ("state", "name", "needed", "awaited"),
    [
        (TaskState.TASK_STATE_INPUT_REQUIRED, "input-required", "input", "an answer"),
        (TaskState.TASK_STATE_AUTH_REQUIRED, "auth-required", "credentials", "credentials"),
    ],
)
def test_why_reports_that_interrupted_task_waits_for_client(
    run: RunCommand, chat: StoreConversation, state: TaskState, name: str, needed: str, awaited: str
) -> None:
    async def one() -> None:
        await chat.ends(await chat.starts("m-1"), state)

    asyncio.run(one())
    printed = run("t-m-1", "--owner", chat.context.owner, "--json").stdout
    (document,) = json.loads(printed)
    assert document["now"]["text"].startswith(f"The task has been waiting for {awaited} from its client since ")
    assert document["now"]["commands"] == [f"aion tasks cancel t-m-1 --owner {chat.context.owner}"]
    assert [each["kind"] for each in document["story"]] == ["message", "status"]
    assert document["story"][1]["text"] == f"The agent asked the client for {needed}."
    assert document["state"] == name


def test_why_explains_running_and_queued_turns(run: RunCommand, chat: StoreConversation) -> None:
    async def busy() -> None:
        await chat.starts("m-1")
        await chat.waits("m-2")

    asyncio.run(busy())
    owner = ("--owner", chat.context.owner)
    assert now(run("t-m-1", *owner).stdout).startswith("The turn is running (try 1). Its worker has the lease until ")
    waiting = run("t-m-2", *owner).stdout
    assert "Its turn has place 1 of 1 in the queue of its context." in waiting
    assert now(waiting) == (
        f"The turn is waiting for the task t-m-1 of its context, which is running: `aion why t-m-1 --owner {chat.context.owner}`."
    )


def test_why_names_remote_agents(run: RunCommand, chat: StoreConversation) -> None:
    facts = {
        CallState.OPEN: "is working for it",
        CallState.ASKS: "is waiting for an answer",
        CallState.ENDED: "has answered",
    }

    async def calls() -> None:
        begun = await chat.starts("m-1")
        for state in facts:
            call = RemoteCall(f"ask-{state}", f"{state}-agent", Message(message_id=f"r-{state}"))
            await chat.store.remote_calls.begin(begun.lease, call)
            await chat.store.remote_calls.reached(begun.head.key, f"ask-{state}", f"t-{state}")
            await chat.store.remote_calls.settle(begun.head.key, f"ask-{state}", state)

    asyncio.run(calls())
    printed = run("t-m-1", "--owner", chat.context.owner).stdout
    for state, fact in facts.items():
        assert f"The agent {state}-agent {fact} (its task t-{state})." in story(printed)
    (document,) = json.loads(run("t-m-1", "--owner", chat.context.owner, "--json").stdout)
    told = {each["agent"]: (each["task"], each["state"]) for each in document["remoteCalls"]}
    assert told == {f"{state}-agent": (f"t-{state}", state.value) for state in facts}


def test_why_explains_turn_that_waits_behind_interrupted_task(run: RunCommand, chat: StoreConversation) -> None:
    async def busy() -> None:
        begun = await chat.starts("m-1")
        await chat.waits("m-2")
        await chat.ends(begun, TaskState.TASK_STATE_INPUT_REQUIRED)

    asyncio.run(busy())
    assert now(run("t-m-2", "--owner", chat.context.owner).stdout) == (
        "The turn is waiting until the task t-m-1 of its context is answered or canceled: "
        f"`aion why t-m-1 --owner {chat.context.owner}`."
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (FAILED, "The task failed at "),
        (TaskState.TASK_STATE_REJECTED, "The agent rejected the task at "),
    ],
)
def test_why_tells_client_what_to_send_after_failed_task(
    run: RunCommand, chat: StoreConversation, state: TaskState, said: str
) -> None:
    async def one() -> None:
        await chat.ends(await chat.starts("m-1"), state)

    asyncio.run(one())
    text = now(run("t-m-1", "--owner", chat.context.owner).stdout)
    assert text.startswith(said)
    assert "its client can send " in text.lower()


def test_why_explains_turn_with_expired_lease(moto: LocalStack, chat: StoreConversation, stack: str) -> None:
    # Start the turn an hour ago, because the command uses the machine's clock.
    chat.clock.move(-3600)
    asyncio.run(chat.starts("m-1"))
    run = operating.runs(operating.environ_of(moto))
    printed = run("why", "t-m-1", "--owner", chat.context.owner, "--stack", stack).stdout
    assert "No sweep has found its timer, which expired at " in printed
    said = now(printed)
    assert said.startswith("The worker of the turn (try 1) is gone: its lease ended at ")
    assert f"`aion tasks cancel t-m-1 --owner {chat.context.owner}" in said
    assert said.endswith(f"the sweep isn't called, or fails: `aws logs tail /aws/lambda/{stack}-sweep`.")


def test_why_explains_suspended_turn(run: RunCommand, chat: StoreConversation) -> None:
    async def suspended() -> None:
        await chat.store.pause((await chat.starts("m-1")).lease, made_progress=True)

    asyncio.run(suspended())
    assert now(run("t-m-1", "--owner", chat.context.owner).stdout) == (
        "The turn is suspended between two workers until a wake-up message resumes it; "
        f"`aion tasks cancel t-m-1 --owner {chat.context.owner}` ends it."
    )


@pytest.mark.parametrize(("for_agent", "calls_back"), [(False, False), (True, False), (True, True)])
def test_why_explains_what_task_waits_for(
    run: RunCommand, chat: StoreConversation, for_agent: bool, calls_back: bool
) -> None:
    async def waits() -> tuple[str, str, str]:
        begun = await chat.starts("m-1")
        if calls_back:
            call = RemoteCall("ask", "weather", Message(message_id="r"), callback="hash")
            await chat.store.remote_calls.begin(begun.lease, call)
        calls = [AwaitedCall("ask", "weather", "r-1", calls_back=calls_back)] if for_agent else []
        _, suspended = await chat.store.suspend(
            begun.lease,
            begun.head,
            chat.says(begun.head),
            key="w",
            until=chat.clock.now() + timedelta(hours=1),
            calls=calls,
        )
        assert suspended.turn.wait is not None
        times = moment(suspended.turn.wait.since), moment(suspended.turn.wait.until), suspended.look_at
        since, until, look = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in times)
        return since, until, look

    since, until, look = asyncio.run(waits())
    what = f"for the agent weather (its task r-1), at the latest until {until}" if for_agent else f"until {until}"
    assert now(run("t-m-1", "--owner", chat.context.owner).stdout) == (
        f"The task has been waiting since {since} {what}, and no process runs: the next look is at {look}"
        f"{', or when the other agent calls back' if calls_back else ''}; "
        f"`aion tasks cancel t-m-1 --owner {chat.context.owner}` ends it."
    )
    (found,) = json.loads(run("t-m-1", "--owner", chat.context.owner, "--json").stdout)
    assert found["contextState"]["waitsFor"]["calls"] == ([{"agent": "weather", "task": "r-1"}] if for_agent else [])
    assert "Nothing to do." in found["contextState"]["status"]


def test_why_command_combines_task_events_log_lines_and_killed_invocations(
    moto: LocalStack, chat: StoreConversation, stack: str, write: Write
) -> None:
    task_id = f"t-{chat.context.owner}"
    context = {"task_id": task_id, "context_id": "c-1", "agent": "echo"}
    turn = {"turn_id": "turn", "fence": 1, "holder": "h"}

    async def failed() -> None:
        chat.clock.move(-60)
        begun = await chat.starts("m-1", task_id=task_id)
        chat.clock.move(120)
        await chat.ends(begun, FAILED)

    asyncio.run(failed())
    first = {"function_request_id": "r-1", **context}
    write("api", level="INFO", message="A turn begins.", tries=1, handoffs=0, **turn, **first)
    write(
        "api", type="platform.report", record={"status": "timeout", "errorType": "Sandbox.Timedout", "requestId": "r-1"}
    )
    write("api", type="platform.report", record={"status": "timeout", "requestId": "another"})
    write("task", level="INFO", message="A turn begins.", tries=2, handoffs=0, **turn, **context)
    write("task", level="INFO", message="A turn begins.", tries=1, handoffs=1, **turn, **context)
    second = {"correlation_id": "r-2", **context}
    error = "Traceback\naion_core.errors.StoreUnavailable: PutItem: ThrottlingException"
    write("task", level="ERROR", message="The turn could not be recorded.", exception=error, **second)
    lost = "A wake-up message could not be enqueued: SendMessage: AccessDenied"
    write("task", level="WARNING", message=lost, context_id="c-1", correlation_id="r-2")
    write("task", level="ERROR", message="Another task's.", task_id="another", context_id="c-1", correlation_id="r-2")
    write("task", level="ERROR", message="Another owner's.", context_id="c-1", correlation_id="r-3")
    run = operating.runs(operating.environ_of(moto))
    printed = run("why", task_id, "--owner", chat.context.owner, "--stack", stack)
    arrival, beginning, *further = story(printed.stdout)
    assert arrival == f"The client {chat.context.owner} sent the message m-1 to the agent echo."
    assert beginning.startswith("The API function began the turn, ")
    assert beginning.endswith(" s after its message.")
    assert further == [
        "Lambda ended an invocation of the api function: timeout (Sandbox.Timedout).",
        "The task function took over the turn (try 2), because the previous worker had not finished it.",
        "The task function resumed the turn after handoff 1, because the previous invocation was out of time.",
        "The task function logged: The turn could not be recorded. aion_core.errors.StoreUnavailable: PutItem: "
        "ThrottlingException (AWS's error code for PutItem: ThrottlingException)",
        "The task function logged: A wake-up message could not be enqueued: SendMessage: AccessDenied (AWS's error code "
        "for SendMessage: AccessDenied)",
        "The task failed.",
    ]
    assert now(printed.stdout).startswith("The task failed at ")
    (document,) = json.loads(run("why", task_id, "--owner", chat.context.owner, "--stack", stack, "--json").stdout)
    codes = [each["code"] for each in document["story"] if "code" in each]
    assert codes == ["ThrottlingException", "AccessDenied"]
    assert document["notRead"] == []


def test_why_names_missing_log_groups(moto: LocalStack, chat: StoreConversation) -> None:
    name = operating.registered(moto, "aion-silent")
    asyncio.run(chat.starts("m-1"))
    run = operating.runs(operating.environ_of(moto))
    printed = run("why", "t-m-1", "--owner", chat.context.owner, "--stack", name).stdout
    assert "The log lines: There is no log group /aws/lambda/aion-silent-api" in printed


def test_why_command_lists_webhook_deliveries_and_dead_letters(
    moto: LocalStack, push: Pushes, stack: str, write: Write
) -> None:
    chat = push.chat
    task_id = f"t-{chat.context.owner}"

    async def told() -> None:
        new = chat.message("m-1", task_id=task_id)
        begun = await chat.store.create(new, holder="holder-1")
        await push.configs.put(new.key, a_config("mine"))
        await chat.ends(begun)  # type: ignore[arg-type]
        until = push.clock.now() + timedelta(seconds=60)
        claim = await push.configs.claim(await push.delivery("mine", task_id=task_id), until=until)
        assert claim is not None
        given_up = await push.configs.give_up(claim, cursor=3, failure="HTTP 500", until=until)
        await push.configs.settle(given_up, cursor=3)

    asyncio.run(told())
    sqs, of_push = moto.client("sqs"), PushWakeUp(chat.key(task_id), 3)
    of_context, of_other = WakeUp(chat.context, 1), WakeUp(ContextKey(chat.context.owner, "echo", "c-2"), 1)
    for queue, body in (
        ("TaskDeadLetters", body_of(of_context)),
        ("TaskDeadLetters", body_of(of_other)),
        ("PushDeadLetters", push_body_of(of_push)),
    ):
        sqs.send_message(QueueUrl=moto.physical_id(queue), MessageBody=body)
    ids = {"task_id": task_id, "config_id": "mine", "generation": 3}
    write("push", level="WARNING", message="A notification failed: HTTP 500", **ids)
    write("push", level="ERROR", message="A notification is given up: HTTP 500", **ids)
    run = operating.runs(operating.environ_of(moto))
    printed = run("why", task_id, "--owner", chat.context.owner, "--stack", stack).stdout
    assert "The webhook mine did not accept event 3: HTTP 500." in printed
    assert "Delivering event 3 to the webhook mine was given up: HTTP 500." in printed
    assert "The webhook mine has 1 dead letter, from event 3 on (HTTP 500)." in printed
    assert printed.count("A message of the task queue") == 1
    assert printed.count("A message of the push queue") == 1
    assert f"`aion push redrive {task_id} mine --owner {chat.context.owner} --stack {stack}`" in now(printed)
    assert "hidden" not in printed


DENIED = "User: arn:aws:iam::1:user/operator is not authorized to perform: s3:GetObject on resource: x"


def with_large_message(moto: LocalStack, chat: StoreConversation) -> None:
    """Write a task of three events. The first one, with the client's message, is in the bucket."""

    async def write() -> None:
        await chat.ends(await chat.starts("m-1", text="x" * 40_000), FAILED)

    asyncio.run(write())


def test_why_prints_events_of_table_if_bucket_is_denied(moto: LocalStack, chat: StoreConversation) -> None:
    with_large_message(moto, chat)
    options = ("t-m-1", "--owner", chat.context.owner)
    with operating.refusing_aws("AccessDenied", DENIED) as url:
        run = operating.runs({**moto.environment("ApiFunction"), "AWS_ENDPOINT_URL_S3": url})
        printed, shown = run("why", *options), run("tasks", "show", *options)
        documents = [json.loads(run(*each, *options, "--json").stdout)[0] for each in (("why",), ("tasks", "show"))]
    unread = "Event 1 of the log: Your AWS credentials lack a permission (s3:GetObject)."
    assert (printed.exit_code, shown.exit_code) == (0, 0), (printed.exception, shown.exception)
    assert story(printed.stdout)[0] == "The task failed."
    assert f"{'not read':23}  {unread}" in printed.stdout
    assert f"not read            {unread}\n" in shown.stdout
    for each in documents:
        assert [event["number"] for event in each["events"]] == [2, 3]
        assert unread in each["notRead"]


def test_why_names_missing_object_and_missing_event(run: RunCommand, moto: LocalStack, chat: StoreConversation) -> None:
    with_large_message(moto, chat)
    s3, bucket = moto.client("s3"), moto.physical_id("Blobs")
    (found,) = s3.list_objects_v2(Bucket=bucket, Prefix=owner_folder("tasks", chat.context.owner))["Contents"]
    s3.delete_object(Bucket=bucket, Key=found["Key"])
    key = {"pk": {"S": keys.task_partition(chat.key("t-m-1"))}, "sk": {"S": keys.event_sort(2)}}
    moto.client("dynamodb").delete_item(TableName=moto.physical_id("Table"), Key=key)
    printed = run("t-m-1", "--owner", chat.context.owner)
    assert story(printed.stdout)[0] == "The task failed."
    assert "  Event 1 of the log: The payload of an event is missing." in printed.stdout
    assert "  Event 2 of the log: It is missing." in printed.stdout


def test_why_names_user_who_called_with_api_key(
    environ: dict[str, str], run: RunCommand, chat: StoreConversation
) -> None:
    made = operating.runs(environ)("key", "create", "alice@example.com", "--tenant", "red")
    assert made.exit_code == 0, made.output
    owner = owner_in(Principal(API_KEY_ISSUER, "alice@example.com").owner, "red")
    hers = StoreConversation(chat.store, chat.clock, ContextKey(owner, "echo", "c-1"))
    asyncio.run(hers.starts("m-1", task_id="t-hers"))
    printed = run("t-hers", "--subject", "alice@example.com", "--tenant", "red").stdout
    assert "The client alice@example.com (API key, tenant red) sent the message m-1" in printed


def test_why_without_owner_searches_whole_table(run: RunCommand, chat: StoreConversation) -> None:
    task_id = f"t-{chat.context.owner}"
    asyncio.run(chat.starts("m-1", task_id=task_id))
    found = run(task_id)
    assert found.stderr.startswith("Reading the whole table")
    assert f"of the owner {chat.context.owner}" in found.stdout
    assert "The log lines: name the stack by --stack." in found.stdout


def test_why_without_task_id_explains_newest_task_in_development(
    chat: StoreConversation, run_in_project: RunCommand
) -> None:
    task_id = f"t-{chat.context.owner}"
    chat.clock.move(86_400)
    asyncio.run(chat.starts("m-1", task_id=task_id))
    assert run_in_project("why").stdout.startswith(f"Task {task_id} of the agent echo")


def test_why_reads_log_file_of_development_server(
    chat: StoreConversation, tmp_path: Path, run_in_project: RunCommand
) -> None:
    task_id = f"t-{chat.context.owner}"
    asyncio.run(chat.starts("m-1", task_id=task_id, text="hello"))
    fields: dict[str, Any] = {"task_id": task_id, "context_id": "c-1"}
    stamp = chat.clock.now().isoformat()
    (tmp_path / ".aion" / LOG).write_text(
        json.dumps({"timestamp": stamp, "level": "INFO", "message": "A turn begins.", "tries": 2, **fields})
        + "\nno json\n"
    )
    printed = run_in_project("why", task_id).stdout
    assert "A worker of `aion dev` took over the turn (try 2)" in printed
    assert "to the agent echo: “hello”." in printed
    assert f"`aion tasks cancel {task_id}` ends it" in now(printed)
