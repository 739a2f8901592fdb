"""Poller that invokes a function with the messages of a queue, as Lambda does."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Semaphore, Thread, current_thread
from typing import TYPE_CHECKING, Any

from aion_tools.stack.lambda_events import sqs_event
from aion_tools.stack.poller import Function, has_ended, seconds_until
from aion_tools.template.reader import Place, TemplateError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


logger = logging.getLogger(__name__)
# Limit of concurrent invocations for a queue without MaximumConcurrency.
CONCURRENCY = 10
LONG_POLL = 20


@dataclass(frozen=True)
class QueueSource:
    """Properties of an SQS event source of a function."""

    queue_url: str
    queue_arn: str
    batch_size: int
    concurrency: int
    reports_failures: bool

    @classmethod
    def of(cls, properties: Mapping[str, Any], place: Place, at_once: int | None = None) -> "QueueSource":
        """Read the event source from the resolved properties of an SQS event in the template.

        `at_once` replaces its MaximumConcurrency.
        """
        if "FilterCriteria" in properties:
            raise TemplateError("the local stack does not support FilterCriteria of an SQS event")
        arn = properties["Queue"]
        return cls(
            queue_url=f"{place.endpoint}/{place.account}/{arn.rsplit(':', 1)[1]}",
            queue_arn=arn,
            batch_size=int(properties.get("BatchSize", 10)),
            concurrency=at_once or int((properties.get("ScalingConfig") or {}).get("MaximumConcurrency", CONCURRENCY)),
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
            self._thread.join(seconds_until(deadline))
        return [self._function.name for thread in list(self._invocations) if not has_ended(thread, deadline)]

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
