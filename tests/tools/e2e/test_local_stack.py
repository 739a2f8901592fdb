"""Tests of `aion_tools.stack.stack.LocalStack`, which creates a template's resources in an emulated AWS."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from aion_tools.stack.stack import LocalStack
from aion_tools.template.reader import TemplateError
from tests.support.e2e import forked
from tests.support.e2e.forked import ForkedProcess
from tests.support.queues import messages_in, received

TEMPLATE = Path(__file__).with_name("local_stack.yaml")
# Seconds. A test waits this long only if it fails.
TIMEOUT = 60


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    with LocalStack.start(TEMPLATE) as stack:
        yield stack


class StackWork:
    """Handler that records its events, and answers each event with the result of a given function."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.events: Queue[dict[str, Any]] = Queue()
        self._answer = answer

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        self.events.put(event)
        return self._answer(event)

    def next(self) -> dict[str, Any]:
        return self.events.get(timeout=TIMEOUT)


def poll(stack: LocalStack, work: Callable[[Any, Any], Any], **options: Any) -> None:
    stack.poll({"WorkFunction": work, "TickFunction": lambda event, context: event}, **options)


def send(stack: LocalStack, *bodies: str) -> None:
    entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
    stack.client("sqs").send_message_batch(QueueUrl=stack.physical_id("Queue"), Entries=entries)


def bodies(event: dict[str, Any]) -> list[str]:
    return [record["body"] for record in event["Records"]]


# --- Resources of a template ---


def test_function_environment_has_template_variables_and_emulator_endpoint(stack: LocalStack) -> None:
    assert stack.environment("WorkFunction") == {
        "QUEUE_URL": stack.physical_id("Queue"),
        "DEAD_LETTERS_URL": stack.physical_id("DeadLetters"),
        "WHERE": "us-east-1/test",
        "TABLE": "local-Table",
        "AWS_ENDPOINT_URL": stack.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
    }


def test_function_on_another_host_gets_reachable_endpoint_urls(stack: LocalStack) -> None:
    environment = stack.environment("WorkFunction", reached_at="host.docker.internal")
    port = stack.endpoint.rpartition(":")[2]
    assert environment["AWS_ENDPOINT_URL"] == f"http://host.docker.internal:{port}"
    assert environment["QUEUE_URL"].startswith(f"http://host.docker.internal:{port}/")


def test_two_concurrent_local_stacks_share_no_state() -> None:
    with LocalStack.start(TEMPLATE) as one, LocalStack.start(TEMPLATE) as other:
        one.client("dynamodb").put_item(TableName="local-Table", Item={"pk": {"S": "mine"}})
        send(one, "mine")
        assert other.client("dynamodb").scan(TableName="local-Table")["Count"] == 0
        assert (messages_in(one, "Queue"), messages_in(other, "Queue")) == (1, 0)


@pytest.mark.parametrize(
    ("mend", "told"),
    [
        (("VisibilityTimeout", "VisibilityTimeOut"), "does not know the property VisibilityTimeOut"),
        (("rate(1 minute)", "cron(0 8 * * ? *)"), "rate(...) schedules only"),
        (("Globals:", "Globals: ["), "is not YAML"),
    ],
)
def test_unsupported_template_is_refused(mend: tuple[str, str], told: str, tmp_path: Path) -> None:
    broken = tmp_path / "template.yaml"
    broken.write_text(TEMPLATE.read_text().replace(*mend))
    with leaves_nothing(), pytest.raises(TemplateError, match=re.escape(told)):
        use(broken)


def use(template: Path) -> None:
    with LocalStack.start(template) as stack:
        stack.environment("WorkFunction")
        poll(stack, lambda event, context: None)


def test_local_stack_error_names_missing_template_or_unknown_parameter() -> None:
    with leaves_nothing():
        with pytest.raises(TemplateError, match=r"cannot read .*missing\.yaml"):
            LocalStack.start("missing.yaml")
        with pytest.raises(TemplateError, match="has no parameter Stadium"):
            LocalStack.start(TEMPLATE, parameters={"Stadium": "x"})


def test_missing_function_handler_is_named_when_polling_starts(stack: LocalStack) -> None:
    with pytest.raises(TemplateError, match=r"cannot import the handler a_module_that_is_not_there\.handler"):
        stack.poll()
    with pytest.raises(TemplateError, match="has no function PlayFunction"):
        stack.poll({"PlayFunction": lambda event, context: None})


def test_function_module_is_imported_with_environment_of_that_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Import it from the template's folder, and let it handle a message."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setenv("TABLE", "of-another-function")
    monkeypatch.delenv("DEAD_LETTERS_URL", raising=False)
    (tmp_path / "reads_at_import.py").write_text(
        "import os\n"
        "names = ('TABLE', 'WHERE', 'DEAD_LETTERS_URL')\n"
        "imported_with = [os.environ[name] for name in names]\n"
        "handled = []\n"
        "def handler(event, context):\n"
        "    handled.append(event['Records'][0]['body'])\n"
    )
    template = tmp_path / "template.yaml"
    template.write_text(TEMPLATE.read_text().replace("a_module_that_is_not_there.handler", "reads_at_import.handler"))
    with LocalStack.start(template) as stack:
        stack.poll({"TickFunction": lambda event, context: None}, environ={"WHERE": "on this machine"})
        url = stack.physical_id("DeadLetters")
        module = sys.modules["reads_at_import"]
        send(stack, "work")
        until(lambda: module.handled == ["work"])
    assert module.imported_with == ["local-Table", "on this machine", url]
    assert os.environ["TABLE"] == "of-another-function"
    assert "DEAD_LETTERS_URL" not in os.environ


# --- Calls of functions ---


def test_sqs_record_has_lambda_event_format(stack: LocalStack) -> None:
    sqs = stack.client("sqs")
    sent = sqs.send_message(
        QueueUrl=stack.physical_id("Queue"),
        MessageBody='{"task": "t-1"} \U0001f642',
        MessageAttributes={
            "kind": {"DataType": "String", "StringValue": "wake-up"},
            "raw": {"DataType": "Binary", "BinaryValue": b"\0\1"},
        },
        MessageGroupId="owner",
    )
    work = StackWork(lambda event: None)
    poll(stack, work)
    (record,) = work.next()["Records"]
    attributes = record.pop("attributes")
    assert record.pop("receiptHandle")
    assert record == {
        "messageId": sent["MessageId"],
        "body": '{"task": "t-1"} \U0001f642',
        "messageAttributes": {
            "kind": {"stringValue": "wake-up", "stringListValues": [], "binaryListValues": [], "dataType": "String"},
            "raw": {"binaryValue": "AAE=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
        },
        "md5OfBody": sent["MD5OfMessageBody"],
        "md5OfMessageAttributes": sent["MD5OfMessageAttributes"],
        "eventSource": "aws:sqs",
        "eventSourceARN": stack.template.attribute("Queue", "Arn", ""),
        "awsRegion": "us-east-1",
    }
    assert attributes.keys() >= {"SenderId", "SentTimestamp", "ApproximateFirstReceiveTimestamp"}
    assert (attributes["ApproximateReceiveCount"], attributes["MessageGroupId"]) == ("1", "owner")


def test_handler_receives_invocation_context(stack: LocalStack) -> None:
    contexts: Queue[Any] = Queue()
    poll(stack, lambda event, context: contexts.put(context))
    send(stack, "one")
    context = contexts.get(timeout=TIMEOUT)
    assert context.function_name == "WorkFunction"
    assert context.invoked_function_arn.endswith(":function:local-WorkFunction")
    assert (context.memory_limit_in_mb, context.function_version) == (512, "$LATEST")
    assert 0 < context.get_remaining_time_in_millis() <= 20_000
    assert context.aws_request_id
    assert context.log_group_name == "/aws/lambda/WorkFunction"


def test_only_failed_messages_are_redelivered(stack: LocalStack) -> None:
    def fail_b_once(event: dict[str, Any]) -> Any:
        return {
            "batchItemFailures": [
                {"itemIdentifier": record["messageId"]}
                for record in event["Records"]
                if record["body"] == "b" and record["attributes"]["ApproximateReceiveCount"] == "1"
            ]
        }

    work = StackWork(fail_b_once)
    send(stack, "a", "b", "c")
    poll(stack, work, retry_after=0)
    assert sorted(bodies(work.next())) == ["a", "b", "c"]
    assert bodies(work.next()) == ["b"]
    stack.stop_polling()
    assert work.events.empty()
    assert (messages_in(stack, "Queue"), messages_in(stack, "DeadLetters")) == (0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        "an exception",
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": "unknown"}]},
        {"not json": object()},
    ],
)
def test_poison_message_ends_in_dead_letter_queue(stack: LocalStack, answer: Any) -> None:
    def poisoned(event: dict[str, Any]) -> Any:
        if answer == "an exception":
            raise ValueError(answer)
        return answer

    work = StackWork(poisoned)
    poll(stack, work, retry_after=0)
    send(stack, "poison")
    assert received(stack, "DeadLetters") == ["poison"]
    stack.stop_polling()
    counts = [event["Records"][0]["attributes"]["ApproximateReceiveCount"] for event in work.events.queue]
    assert counts == ["1", "2", "3"]
    assert messages_in(stack, "Queue") == 0


def test_failed_message_stays_hidden_by_default(stack: LocalStack) -> None:
    failed = threading.Event()

    def fail(event: Any, context: Any) -> None:
        failed.set()
        raise ValueError

    poll(stack, fail, retry_after=None)
    send(stack, "one")
    assert failed.wait(TIMEOUT)
    stack.stop_polling()
    answer = stack.client("sqs").receive_message(QueueUrl=stack.physical_id("Queue"))
    assert "Messages" not in answer
    assert messages_in(stack, "Queue") == 1


def test_queue_poller_waits_only_at_maximum_concurrency(stack: LocalStack) -> None:
    begun: Queue[list[str]] = Queue()
    may_end = threading.Semaphore(0)
    running = threading.BoundedSemaphore(2)

    def slow(event: Any, context: Any) -> None:
        if not running.acquire(blocking=False):
            begun.put(["a third at once"])
        begun.put(bodies(event))
        may_end.acquire(timeout=TIMEOUT)
        running.release()

    poll(stack, slow)
    for body in ("one", "two"):
        send(stack, body)
        assert begun.get(timeout=TIMEOUT) == [body]
    send(stack, "three")
    may_end.release()
    assert begun.get(timeout=TIMEOUT) == ["three"]
    may_end.release(2)
    stack.stop_polling()
    assert messages_in(stack, "Queue") == 0


def test_schedule_calls_function_with_eventbridge_event(stack: LocalStack) -> None:
    ticks: list[Any] = []
    stack.poll(
        {"WorkFunction": lambda event, context: None, "TickFunction": lambda event, context: ticks.append(event)}
    )
    stack.call_schedules("TickFunction")
    (event,) = ticks
    with pytest.raises(TemplateError, match="WorkFunction has no polled schedule"):
        stack.call_schedules("WorkFunction")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.pop("time"))
    assert event.pop("id")
    account = event["account"]
    assert event == {
        "version": "0",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": account,
        "region": "us-east-1",
        "resources": [f"arn:aws:events:us-east-1:{account}:rule/EveryMinute"],
        "detail": {},
    }


# --- Concurrent callers ---


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Switch threads very often, to expose missing locks."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.deep
@pytest.mark.usefixtures("restless_threads")
def test_exactly_one_conflicting_transaction_succeeds(stack: LocalStack) -> None:
    together = threading.Barrier(8)

    def race(racer: int) -> list[bool]:
        dynamodb = stack.client("dynamodb")
        together.wait(TIMEOUT)
        won = []
        for n in range(4):
            won.append(is_done(dynamodb, [put_once(f"once-{n}"), add_one("won")]))
            # The failing transactions of the other threads must not undo this write.
            assert is_done(dynamodb, [add_one(f"mine-{racer}"), add_one("all")])
        return won

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(race, range(8)))
    assert [sum(rounds) for rounds in zip(*won, strict=True)] == [1] * 4
    items = stack.client("dynamodb").scan(TableName="local-Table")["Items"]
    counts = {item["pk"]["S"]: int(item["n"]["N"]) for item in items if "n" in item}
    assert counts == {"won": 4, "all": 32, **{f"mine-{racer}": 4 for racer in range(8)}}


def is_done(dynamodb: Any, transaction: list[dict[str, Any]]) -> bool:
    try:
        dynamodb.transact_write_items(TransactItems=transaction)
    except dynamodb.exceptions.TransactionCanceledException:
        return False
    return True


def put_once(pk: str) -> dict[str, Any]:
    return {
        "Put": {
            "TableName": "local-Table",
            "Item": {"pk": {"S": pk}},
            "ConditionExpression": "attribute_not_exists(pk)",
        }
    }


def add_one(pk: str) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": "local-Table",
            "Key": {"pk": {"S": pk}},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }


@pytest.mark.deep
@pytest.mark.usefixtures("restless_threads")
def test_concurrent_receivers_get_each_queue_message_only_once(stack: LocalStack) -> None:
    url = stack.physical_id("Queue")

    def receive(_: int) -> list[str]:
        sqs = stack.client("sqs")
        got: list[str] = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=3).get("Messages"):
            got += [message["Body"] for message in messages]
        return got

    sent = [f"{n}" for n in range(60)]
    for n in range(0, 60, 10):
        send(stack, *sent[n : n + 10])
    with ThreadPoolExecutor(8) as threads:
        received = [body for got in threads.map(receive, range(8)) for body in got]
    assert sorted(received) == sorted(sent)


def test_long_poll_blocks_no_other_request(stack: LocalStack) -> None:
    url = stack.physical_id("Queue")
    with ThreadPoolExecutor(8) as threads:
        polls = [
            threads.submit(stack.client("sqs").receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(8)
        ]
        stack.client("dynamodb").put_item(TableName="local-Table", Item={"pk": {"S": "x"}})
        assert not any(poll.done() for poll in polls)
        send(stack, *(str(n) for n in range(8)))
        got = [poll.result(TIMEOUT)["Messages"][0]["Body"] for poll in polls]
    assert sorted(got) == [str(n) for n in range(8)]


# --- Shutdown ---


@contextmanager
def leaves_nothing() -> Iterator[None]:
    """Expect that the block leaves no new thread."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_stopped_stack_leaves_no_thread() -> None:
    with ThreadPoolExecutor(1) as threads, leaves_nothing_but(threads):
        with LocalStack.start(TEMPLATE) as stack:
            poll(stack, lambda event, context: None)
            send(stack, "one")
            port = int(stack.endpoint.rpartition(":")[2])
            silent = socket.create_connection(("127.0.0.1", port))
            url = stack.physical_id("DeadLetters")
            waiting = threads.submit(stack.client("sqs").receive_message, QueueUrl=url, WaitTimeSeconds=20)
            # Wait for the long polls of the poller and of this test.
            until(lambda: stack.emulator.polls_waiting == 2)
        assert "Messages" not in waiting.result(TIMEOUT)
        assert silent.recv(1) == b""
        silent.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        stack.stop()  # stop again, because a second stop is allowed


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


@contextmanager
def leaves_nothing_but(threads: ThreadPoolExecutor) -> Iterator[None]:
    threads.submit(int).result()
    with leaves_nothing():
        yield


def test_stop_logs_name_of_hanging_function(caplog: pytest.LogCaptureFixture) -> None:
    runs, may_end = threading.Event(), threading.Event()

    def stuck(event: Any, context: Any) -> None:
        runs.set()
        may_end.wait(TIMEOUT)

    stack = LocalStack.start(TEMPLATE)
    poll(stack, stuck)
    send(stack, "one")
    assert runs.wait(TIMEOUT)
    with caplog.at_level(logging.WARNING):
        stack.stop(grace=0)
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "WorkFunction-batch":
            thread.join(TIMEOUT)
    assert "WorkFunction is still running" in caplog.text


# --- As a process ---


STACK = ("aion_tools.stack.stack", "--template", str(TEMPLATE))


@contextmanager
def process(*arguments: str) -> Iterator[tuple[ForkedProcess, dict[str, Any]]]:
    running = ForkedProcess(*STACK, *arguments, env=os.environ, stdout=subprocess.PIPE)
    assert running.stdout is not None
    with running.stdout:
        try:
            yield running, json.loads(running.stdout.readline())
        finally:
            running.kill()
            running.wait(TIMEOUT)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_local_stack_process_serves_until_stopped(how: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-another-machine")
    with process() as (running, said):
        environment = said["environment"]["WorkFunction"]
        assert environment["AWS_ENDPOINT_URL"] == said["endpoint"]
        with connected(environment) as dynamodb:
            dynamodb.put_item(TableName=environment["TABLE"], Item={"pk": {"S": "x"}})
        running.send_signal(how)
        assert running.wait(TIMEOUT) == 0


def test_killed_process_restarts_at_its_port() -> None:
    with process() as (running, said):
        port = said["endpoint"].rpartition(":")[2]
        running.send_signal(signal.SIGKILL)
        running.wait(TIMEOUT)
        with process("--port", port) as (_, again):
            assert again == said
            with connected(again["environment"]["WorkFunction"]) as dynamodb:
                assert dynamodb.scan(TableName="local-Table")["Count"] == 0


def test_failing_local_stack_process_prints_reason_and_ends() -> None:
    with process() as (_, said):
        port = said["endpoint"].rpartition(":")[2]
        taken = forked.run(*STACK, "--port", port, env=os.environ)
        assert (taken.returncode, taken.stdout) == (1, "")
        assert taken.stderr == f"local stack: cannot serve on 127.0.0.1:{port}: Address already in use\n"
        no_handler = forked.run(*STACK, "--poll", env=os.environ)
        assert no_handler.returncode == 1
        assert "cannot import the handler a_module_that_is_not_there.handler" in no_handler.stderr


@contextmanager
def connected(environment: dict[str, str]) -> Iterator[Any]:
    """Yield a DynamoDB client that takes its settings from the environment, as in an agent's process."""
    import boto3

    before = dict(os.environ)
    os.environ.pop("AWS_PROFILE", None)
    os.environ.update(environment)
    try:
        yield boto3.client("dynamodb")
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_stopped_queue_poller_receives_no_message(stack: LocalStack) -> None:
    """Stop a poller during its long poll: the next message stays available for another receiver."""
    attached = LocalStack.at(TEMPLATE, stack.template.place)
    work = StackWork(lambda event: None)
    poll(attached, work)
    while stack.emulator.polls_waiting == 0:
        time.sleep(0.01)
    attached.stop_polling()
    send(stack, "for another")
    assert received(stack, "Queue") == ["for another"]
    assert work.events.empty()
