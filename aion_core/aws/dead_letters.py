"""SQS dead letter queue: its messages, read, dropped and redriven; and the fill level of a queue."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aion_core.aws.client import Calls
from aion_core.errors import ConfigurationError
from aion_core.ports.queues import DeadLetter

HIDDEN_SECONDS = 60
"""Visibility timeout of read messages, unless they are given back earlier."""

_BATCH = 10
"""Maximum number of messages in one response of SQS."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """Approximate numbers of a queue's messages."""

    waiting: int
    in_flight: int
    delayed: int


class SQSDeadLetters:
    """Dead letter queue of an SQS queue. Implements `ports.DeadLetters`."""

    def __init__(self, sqs: Calls, *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url
        self._url = ""

    async def url(self) -> str:
        """Return the URL of the dead letter queue; raises ConfigurationError without one."""
        if not self._url:
            _, arn = await self._arns()
            *_, account, name = arn.split(":")
            self._url = (await self._sqs("get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account))["QueueUrl"]
        return self._url

    async def read(self, limit: int) -> list[DeadLetter]:
        """See `ports.DeadLetters.read`."""
        url, found = await self.url(), dict[str, DeadLetter]()
        while len(found) < limit:
            response = await self._sqs(
                "receive_message",
                QueueUrl=url,
                MaxNumberOfMessages=min(_BATCH, limit - len(found)),
                VisibilityTimeout=HIDDEN_SECONDS,
                # Long polling queries all servers of SQS, so an empty response means an empty queue.
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["SentTimestamp"],
            )
            letters = [_letter(message) for message in response.get("Messages", [])]
            if not letters:
                break
            found.update((letter.id, letter) for letter in letters)
        return list(found.values())

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """See `ports.DeadLetters.give_back`."""
        for letter in letters:
            await self._sqs(
                "change_message_visibility",
                QueueUrl=await self.url(),
                ReceiptHandle=letter.receipt,
                VisibilityTimeout=0,
            )

    async def redrive(self) -> None:
        """Start SQS's redrive of all messages; it runs in the background."""
        queue, dead_letters = await self._arns()
        # Name the destination: SQS does not know the source queue of messages sent directly to the dead letter queue.
        await self._sqs("start_message_move_task", SourceArn=dead_letters, DestinationArn=queue)

    async def drop(self, letter: DeadLetter) -> None:
        """See `ports.DeadLetters.drop`."""
        await self._sqs("delete_message", QueueUrl=await self.url(), ReceiptHandle=letter.receipt)

    async def _arns(self) -> tuple[str, str]:
        """Return the ARNs of the queue and of its dead letter queue; raises ConfigurationError without one."""
        names = ["QueueArn", "RedrivePolicy"]
        response = await self._sqs("get_queue_attributes", QueueUrl=self._queue_url, AttributeNames=names)
        attributes = response.get("Attributes", {})
        policy = json.loads(attributes.get("RedrivePolicy", "{}"))
        if "deadLetterTargetArn" not in policy:
            raise ConfigurationError(f"The queue {self._queue_url} has no dead letter queue.")
        return attributes["QueueArn"], policy["deadLetterTargetArn"]


async def queue_state(sqs: Calls, url: str) -> QueueState:
    """Return the approximate fill level of the queue; raises StoreError."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    attributes = (await sqs("get_queue_attributes", QueueUrl=url, AttributeNames=names))["Attributes"]
    return QueueState(*(int(attributes.get(name, 0)) for name in names))


def _letter(message: dict[str, object]) -> DeadLetter:
    attributes = message.get("Attributes")
    sent_at = attributes.get("SentTimestamp", 0) if isinstance(attributes, dict) else 0
    return DeadLetter(
        id=str(message["MessageId"]),
        body=str(message["Body"]),
        sent_at=datetime.fromtimestamp(float(sent_at) / 1000, UTC),
        receipt=str(message["ReceiptHandle"]),
    )
