"""SQS: wake-up messages and dead letter queues.

A message contains ids only, and no content of tasks.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aion_core.errors import ConfigurationError
from aion_core.ports.queues import LONGEST_DELAY, DeadLetter, PushWakeUp, WakeUp, body_of, push_body_of

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient


class SQSWorkQueue:
    """`ports.WorkQueue` on one standard queue."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """See `ports.WorkQueue.enqueue`."""
        await self._sqs("send_message", **self._message(wake_up, delay))

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """See `ports.WorkQueue.enqueue_from_thread`."""
        self._sqs.blocking("send_message", **self._message(wake_up, delay))

    def _message(self, wake_up: WakeUp, delay: float) -> dict[str, Any]:
        return _message(self._queue_url, body_of(wake_up), wake_up.context.owner, delay)


class SQSPushQueue:
    """`ports.PushQueue` on one standard queue."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """See `ports.PushQueue.enqueue`."""
        message = _message(self._queue_url, push_body_of(wake_up), wake_up.task.owner, delay)
        await self._sqs("send_message", **message)


def _message(queue_url: str, body: str, owner: str, delay: float) -> dict[str, Any]:
    return {
        "QueueUrl": queue_url,
        "MessageBody": body,
        # SQS takes whole seconds only: round up, since early is worse than late.
        "DelaySeconds": min(max(math.ceil(delay), 0), LONGEST_DELAY),
        # Fair queues: on a standard queue, an owner's many messages do not delay another owner's few.
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
        "MessageGroupId": _group(owner),
    }


def _group(owner: str) -> str:
    # A group's name has at most 128 characters, and fewer kinds of them than an owner.
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# ── Dead letters ──────────────────────────────────────────────────────────────────────────────────────────────────────

HIDDEN_SECONDS = 60
"""Visibility timeout of a message that is read but not returned."""

_AT_ONCE = 10
"""SQS's limit of messages in one response."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """Approximate number of messages in a queue."""

    waiting: int
    in_flight: int
    delayed: int


class SQSDeadLetters:
    """`ports.queues.DeadLetters` on a queue's dead letter queue."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url
        self._url = ""

    async def url(self) -> str:
        """Return the URL of the dead letter queue; raises ConfigurationError if the queue does not have one."""
        if not self._url:
            answer = await self._sqs("get_queue_attributes", QueueUrl=self._queue_url, AttributeNames=["RedrivePolicy"])
            policy = json.loads(answer.get("Attributes", {}).get("RedrivePolicy", "{}"))
            if "deadLetterTargetArn" not in policy:
                raise ConfigurationError(f"The queue {self._queue_url} has no dead letter queue.")
            *_, account, name = policy["deadLetterTargetArn"].split(":")
            found = await self._sqs("get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account)
            self._url = found["QueueUrl"]
        return self._url

    async def read(self, limit: int) -> list[DeadLetter]:
        """Return at most `limit` different messages and hide them; give them back, send them again or drop them."""
        url, found = await self.url(), dict[str, DeadLetter]()
        while len(found) < limit:
            answer = await self._sqs(
                "receive_message",
                QueueUrl=url,
                MaxNumberOfMessages=min(_AT_ONCE, limit - len(found)),
                VisibilityTimeout=HIDDEN_SECONDS,
                # Long polling asks all of SQS's servers: an empty answer means an empty queue.
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId"],
            )
            letters = [_letter(message) for message in answer.get("Messages", [])]
            if not letters:
                break
            found.update((letter.id, letter) for letter in letters)
        return list(found.values())

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """Make the messages visible again at once."""
        for letter in letters:
            await self._sqs(
                "change_message_visibility",
                QueueUrl=await self.url(),
                ReceiptHandle=letter.receipt,
                VisibilityTimeout=0,
            )

    async def send_again(self, letter: DeadLetter) -> None:
        """Send the message to its queue again, then delete it here.

        After an interruption it is in both queues: a second wake-up message is harmless.
        """
        group = {"MessageGroupId": letter.group} if letter.group else {}
        await self._sqs("send_message", QueueUrl=self._queue_url, MessageBody=letter.body, **group)
        await self.drop(letter)

    async def drop(self, letter: DeadLetter) -> None:
        """Delete the message; a missing one is no error."""
        await self._sqs("delete_message", QueueUrl=await self.url(), ReceiptHandle=letter.receipt)


async def queue_state(sqs: "AwsClient", url: str) -> QueueState:
    """Return SQS's approximate number of messages in the queue; raises StoreError."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    attributes = (await sqs("get_queue_attributes", QueueUrl=url, AttributeNames=names))["Attributes"]
    return QueueState(*(int(attributes.get(name, 0)) for name in names))


def _letter(message: dict[str, object]) -> DeadLetter:
    found = message.get("Attributes")
    attributes = found if isinstance(found, dict) else {}
    return DeadLetter(
        id=str(message["MessageId"]),
        body=str(message["Body"]),
        group=str(attributes.get("MessageGroupId", "")),
        sent_at=datetime.fromtimestamp(float(attributes.get("SentTimestamp", 0)) / 1000, UTC),
        receipt=str(message["ReceiptHandle"]),
    )
