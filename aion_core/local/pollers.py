"""Calls the functions of a template when their queues or schedules say so, as Lambda would."""

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Semaphore, Thread, current_thread
from typing import TYPE_CHECKING, Any, Protocol

from aion_core.local.lambda_events import LambdaContext, schedule_event, sqs_event
from aion_core.template.reader import Place, TemplateError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Handler = Callable[[Any, Any], Any]

logger = logging.getLogger(__name__)

# Without a MaximumConcurrency of its own a queue gets this many invocations at once.
CONCURRENCY = 10
LONG_POLL = 20
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


@dataclass(frozen=True)
class Function:
    """A function of the template with the code that stands behind it."""

    name: str
    arn: str
    timeout: int
    memory: int
    handler: Handler

    def invoke(self, event: Any) -> Any:
        """Return what the function answers, as JSON carries it; whatever its handler raises, rises."""
        context = LambdaContext(self.name, self.arn, self.memory, self.timeout)
        return json.loads(json.dumps(self.handler(event, context)))


class Poller(Protocol):
    """A thread that calls one function."""

    def start(self) -> None:
        """Begin to call it."""

    def stop(self) -> None:
        """Begin no further call."""

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for calls that run until this monotonic time; name the functions that still do.

        Without `polls` a poll that waits for messages is left to itself: it gives back what it gets.
        """


@dataclass(frozen=True)
class QueueSource:
    """One SQS event of a function: which queue, and how it is read."""

    queue_url: str
    queue_arn: str
    batch_size: int
    concurrency: int
    reports_failures: bool

    @classmethod
    def of(cls, properties: Mapping[str, Any], place: Place) -> "QueueSource":
        """Read the properties of an SQS event."""
        if "FilterCriteria" in properties:
            raise TemplateError("an SQS event with FilterCriteria cannot be polled here")
        arn = properties["Queue"]
        return cls(
            queue_url=f"{place.endpoint}/{place.account}/{arn.rsplit(':', 1)[1]}",
            queue_arn=arn,
            batch_size=int(properties.get("BatchSize", 10)),
            concurrency=int((properties.get("ScalingConfig") or {}).get("MaximumConcurrency", CONCURRENCY)),
            reports_failures="ReportBatchItemFailures" in (properties.get("FunctionResponseTypes") or ()),
        )


class QueuePoller:
    """Hands a queue's messages to a function, batch by batch, each batch in a thread of its own.

    A message that failed is tried again after `retry_after` seconds; without, when the queue's visibility timeout ends,
    as on AWS.
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
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further call."""
        self._stopping.set()
        self._slots.release()  # one more than there are: whoever waits for one sees the end

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for the batches that are being worked on."""
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
                self._give_back(messages)
                return
            thread = Thread(target=self._work, args=(messages,), name=f"{self._function.name}-batch", daemon=True)
            self._invocations.add(thread)
            thread.start()

    def _receive(self) -> Sequence[Mapping[str, Any]]:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self._source.queue_url,
                # Lambda takes more than ten at a time by several calls; a smaller batch is as good here.
                MaxNumberOfMessages=min(self._source.batch_size, 10),
                WaitTimeSeconds=LONG_POLL,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except Exception:
            self._complain("cannot poll its queue")
            self._stopping.wait(1)
            return []
        return answer.get("Messages", [])

    def _give_back(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Let others receive at once what came when no call may begin any more."""
        try:
            for message in messages:
                self._sqs.change_message_visibility(
                    QueueUrl=self._source.queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )
        except Exception:
            self._complain("cannot give back its messages, which will come again")

    def _work(self, messages: Sequence[Mapping[str, Any]]) -> None:
        try:
            self._settle(messages, self._failures(messages))
        except Exception:
            self._complain("cannot settle its batch, which will come again")
        finally:
            self._slots.release()
            self._invocations.discard(current_thread())

    def _complain(self, what: str) -> None:
        # Once it is told to stop, the queue may go away under it.
        if not self._stopping.is_set():
            logger.exception("%s: %s", self._function.name, what)

    def _failures(self, messages: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the ids of the messages that failed."""
        everything = {message["MessageId"] for message in messages}
        try:
            answer = self._function.invoke(sqs_event(messages, self._source.queue_arn))
        except (Exception, SystemExit):
            logger.exception("%s failed with %d message(s)", self._function.name, len(messages))
            return everything
        if not self._source.reports_failures:
            return set()
        failed = reported_failures(answer, everything)
        if failed:
            logger.warning("%s: %d of %d message(s) failed", self._function.name, len(failed), len(messages))
        return failed

    def _settle(self, messages: Sequence[Mapping[str, Any]], failed: set[str]) -> None:
        handles = {message["MessageId"]: message["ReceiptHandle"] for message in messages}
        for message_id, handle in handles.items():
            if message_id not in failed:
                self._sqs.delete_message(QueueUrl=self._source.queue_url, ReceiptHandle=handle)
            elif self._retry_after is not None:
                self._sqs.change_message_visibility(
                    QueueUrl=self._source.queue_url, ReceiptHandle=handle, VisibilityTimeout=self._retry_after
                )


def reported_failures(answer: Any, everything: set[str]) -> set[str]:
    """Return the ids that a partial batch response names; one that Lambda cannot read fails the whole batch.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
    """
    if answer is None or answer == {}:
        return set()
    if not isinstance(answer, dict):
        return everything
    failures = answer.get("batchItemFailures")
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
    """Calls a function at the rate of its event, a Schedule or a ScheduleV2."""

    def __init__(self, function: Function, kind: str, name: str, properties: Mapping[str, Any], place: Place) -> None:
        self.function = function
        self._event = partial(schedule_event, kind, name, properties, place)
        self._interval = interval(properties["Schedule" if kind == "Schedule" else "ScheduleExpression"])
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"schedule-{function.name}", daemon=True)

    def start(self) -> None:
        """Begin to call it, first when its interval has passed once."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further call."""
        self._stopping.set()

    def join(self, deadline: float, *, polls: bool = True) -> list[str]:
        """Wait for the call that runs."""
        return [] if _ended(self._thread, deadline) else [self.function.name]

    def call(self) -> Any:
        """Call it now, in this thread."""
        return self.function.invoke(self._event())

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.call()
            except (Exception, SystemExit):
                logger.exception("%s failed", self.function.name)


def interval(expression: str) -> int:
    """Return the seconds of a schedule expression such as rate(5 minutes)."""
    match = _RATE.fullmatch(expression)
    if match is None:
        raise TemplateError(f"only rate(...) schedules run here, not {expression!r}")
    return int(match[1]) * _UNITS[match[2]]


def _ended(thread: Thread, deadline: float) -> bool:
    thread.join(_until(deadline))
    return not thread.is_alive()


def _until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
