"""Pollers that invoke the template's functions for queue messages and at schedules, as Lambda does."""

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Semaphore, Thread, current_thread
from typing import TYPE_CHECKING, Any, Protocol

from aion_tools.stack.lambda_events import LambdaContext, schedule_event, sqs_event
from aion_tools.template.reader import Place, TemplateError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Handler = Callable[[Any, Any], Any]

logger = logging.getLogger(__name__)

# Limit of concurrent invocations for a queue without MaximumConcurrency.
CONCURRENCY = 10
LONG_POLL = 20
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


@dataclass(frozen=True)
class Function:
    """A Lambda function of the template, with its properties and its Python handler."""

    name: str
    arn: str
    timeout: int
    memory: int
    handler: Handler

    def invoke(self, event: Any) -> Any:
        """Call the handler with the event, and return its result as parsed JSON. Raises the handler's exceptions."""
        context = LambdaContext(self.name, self.arn, self.memory, self.timeout)
        return json.loads(json.dumps(self.handler(event, context)))


class Poller(Protocol):
    """Protocol for a poller: a thread that invokes one function of the template."""

    def start(self) -> None:
        """Start polling."""

    def stop(self) -> None:
        """Start no further invocation."""

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for running invocations until this monotonic time. Return the names of functions still running.

        With `polls=False`, do not wait for the end of a long poll. Messages that it receives become visible again.
        """


@dataclass(frozen=True)
class QueueSource:
    """Properties of an SQS event source of a function."""

    queue_url: str
    queue_arn: str
    batch_size: int
    concurrency: int
    reports_failures: bool

    @classmethod
    def of(cls, properties: Mapping[str, Any], place: Place) -> "QueueSource":
        """Read the event source from the resolved properties of an SQS event in the template."""
        if "FilterCriteria" in properties:
            raise TemplateError("the local stack does not support FilterCriteria of an SQS event")
        arn = properties["Queue"]
        return cls(
            queue_url=f"{place.endpoint}/{place.account}/{arn.rsplit(':', 1)[1]}",
            queue_arn=arn,
            batch_size=int(properties.get("BatchSize", 10)),
            concurrency=int((properties.get("ScalingConfig") or {}).get("MaximumConcurrency", CONCURRENCY)),
            reports_failures="ReportBatchItemFailures" in (properties.get("FunctionResponseTypes") or ()),
        )


class QueuePoller:
    """Poller that invokes a function with the messages of a queue, with each batch in its own thread.

    A failed message becomes visible after `retry_after` seconds or, with None, after the queue's visibility timeout as
    on AWS.
    """

    def __init__(self, function: Function, source: QueueSource, sqs: "SQSClient", retry_after: int | None) -> None:
        self._function = function
        self._source = source
        self._sqs = sqs
        self._retry_after = retry_after
        self._slots = Semaphore(source.concurrency)
        self._stopping = Event()
        self._invocations: set[Thread] = set()
        self._thread = Thread(target=self._poll, name=f"poll-{function.name}", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further invocation."""
        self._stopping.set()
        self._slots.release()  # wake the polling thread, which may wait for a slot

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for running batches until this monotonic time. Return the function's name for each unfinished batch."""
        if polls:
            self._thread.join(_until(deadline))
        return [self._function.name for thread in list(self._invocations) if not _ended(thread, deadline)]

    def _poll(self) -> None:
        while True:
            self._slots.acquire()
            if self._stopping.is_set():
                return
            messages = self._receive()
            if not messages:
                self._slots.release()
                continue
            if self._stopping.is_set():
                self._release(messages)
                return
            thread = Thread(target=self._work, args=(messages,), name=f"{self._function.name}-batch", daemon=True)
            self._invocations.add(thread)
            thread.start()

    def _receive(self) -> Sequence[Mapping[str, Any]]:
        try:
            response = self._sqs.receive_message(
                QueueUrl=self._source.queue_url,
                # Receive ten messages at most. Unlike Lambda, do not combine several calls for a larger batch.
                MaxNumberOfMessages=min(self._source.batch_size, 10),
                WaitTimeSeconds=LONG_POLL,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except Exception:
            self._log_failure("cannot poll its queue")
            self._stopping.wait(1)
            return []
        return response.get("Messages", [])

    def _release(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Make messages visible again that were received after the poller was stopped."""
        try:
            for message in messages:
                self._sqs.change_message_visibility(
                    QueueUrl=self._source.queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )
        except Exception:
            self._log_failure("cannot release its messages; they return after their visibility timeout")

    def _work(self, messages: Sequence[Mapping[str, Any]]) -> None:
        try:
            self._finish(messages, self._failures(messages))
        except Exception:
            self._log_failure("cannot delete its batch; its messages return after their visibility timeout")
        finally:
            self._slots.release()
            self._invocations.discard(current_thread())

    def _log_failure(self, problem: str) -> None:
        # Ignore failures once the poller is stopped, because the queue may already be deleted.
        if not self._stopping.is_set():
            logger.exception("%s: %s", self._function.name, problem)

    def _failures(self, messages: Sequence[Mapping[str, Any]]) -> set[str]:
        """Invoke the function with a batch of messages. Return the ids of failed messages."""
        everything = {message["MessageId"] for message in messages}
        try:
            response = self._function.invoke(sqs_event(messages, self._source.queue_arn))
        except (Exception, SystemExit):
            logger.exception("%s failed with %d message(s)", self._function.name, len(messages))
            return everything
        if not self._source.reports_failures:
            return set()
        failed = reported_failures(response, everything)
        if failed:
            logger.warning("%s: %d of %d message(s) failed", self._function.name, len(failed), len(messages))
        return failed

    def _finish(self, messages: Sequence[Mapping[str, Any]], failed: set[str]) -> None:
        handles = {message["MessageId"]: message["ReceiptHandle"] for message in messages}
        for message_id, handle in handles.items():
            if message_id not in failed:
                self._sqs.delete_message(QueueUrl=self._source.queue_url, ReceiptHandle=handle)
            elif self._retry_after is not None:
                self._sqs.change_message_visibility(
                    QueueUrl=self._source.queue_url, ReceiptHandle=handle, VisibilityTimeout=self._retry_after
                )


def reported_failures(response: Any, everything: set[str]) -> set[str]:
    """Read the ids of failed messages from a function's partial batch response.

    `everything` contains all ids of the batch. All count as failed if the response has a wrong format.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
    """
    if response is None or response == {}:
        return set()
    if not isinstance(response, dict):
        return everything
    failures = response.get("batchItemFailures")
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return everything
    named: set[str] = set()
    for item in failures:
        message_id = item.get("itemIdentifier") if isinstance(item, dict) else None
        if not isinstance(message_id, str) or message_id not in everything:
            return everything
        named.add(message_id)
    return named


class SchedulePoller:
    """Poller that invokes a function at the rate of its Schedule or ScheduleV2 event."""

    def __init__(self, function: Function, kind: str, name: str, properties: Mapping[str, Any], place: Place) -> None:
        self.function = function
        self._event = partial(schedule_event, kind, name, properties, place)
        self._interval = interval(properties["Schedule" if kind == "Schedule" else "ScheduleExpression"])
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"schedule-{function.name}", daemon=True)

    def start(self) -> None:
        """Start the schedule. The first invocation follows after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further invocation."""
        self._stopping.set()

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for a running invocation until this monotonic time. Return the function's name if it still runs."""
        return [] if _ended(self._thread, deadline) else [self.function.name]

    def call(self) -> Any:
        """Invoke the function now, in this thread."""
        return self.function.invoke(self._event())

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.call()
            except (Exception, SystemExit):
                logger.exception("%s failed", self.function.name)


def interval(expression: str) -> int:
    """Return the number of seconds in a schedule expression such as rate(5 minutes)."""
    match = _RATE.fullmatch(expression)
    if match is None:
        raise TemplateError(f"the local stack supports rate(...) schedules only, not {expression!r}")
    return int(match[1]) * _UNITS[match[2]]


def _ended(thread: Thread, deadline: float) -> bool:
    thread.join(_until(deadline))
    return not thread.is_alive()


def _until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
