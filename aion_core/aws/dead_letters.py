"""The dead letter queue behind a queue of bells: what lies in it, sent again or thrown away, one message at a time."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aion_core.aws.client import AwsClient
from aion_core.errors import ConfigurationError
from aion_core.ports.queues import DeadLetter

HIDDEN_SECONDS = 60
"""How long a message that was read is kept from others, should it not be given back."""

_AT_ONCE = 10
"""SQS gives no more in one answer."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """How full a queue is, about."""

    waiting: int
    in_flight: int
    delayed: int


class SQSDeadLetters:
    """What a queue's function could not answer."""

    def __init__(self, sqs: AwsClient, *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url
        self._url = ""

    async def url(self) -> str:
        """Return the URL of the dead letter queue; raises ConfigurationError where the queue has none."""
        if not self._url:
            answer = await self._sqs("get_queue_attributes", QueueUrl=self._queue_url, AttributeNames=["RedrivePolicy"])
            policy = json.loads(answer.get("Attributes", {}).get("RedrivePolicy", "{}"))
            if "deadLetterTargetArn" not in policy:
                raise ConfigurationError(f"The queue {self._queue_url} has no dead letter queue.")
            *_, account, name = policy["deadLetterTargetArn"].split(":")
            asked = await self._sqs("get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account)
            self._url = asked["QueueUrl"]
        return self._url

    async def read(self, limit: int) -> list[DeadLetter]:
        """Return messages, each once, at most so many, and hide them from others: give them back, or settle them."""
        url, found = await self.url(), dict[str, DeadLetter]()
        while len(found) < limit:
            answer = await self._sqs(
                "receive_message",
                QueueUrl=url,
                MaxNumberOfMessages=min(_AT_ONCE, limit - len(found)),
                VisibilityTimeout=HIDDEN_SECONDS,
                # A poll that waits asks all of SQS's servers: its empty answer means that nothing is there.
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId"],
            )
            letters = [_letter(message) for message in answer.get("Messages", [])]
            if not letters:
                break
            found.update((letter.id, letter) for letter in letters)
        return list(found.values())

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """Let others see the messages again, now."""
        for letter in letters:
            await self._sqs(
                "change_message_visibility",
                QueueUrl=await self.url(),
                ReceiptHandle=letter.receipt,
                VisibilityTimeout=0,
            )

    async def send_again(self, letter: DeadLetter) -> None:
        """Put the message back into its queue, then take it out of this one: should this end in between, it is in both.

        That costs nothing: a bell may be doubled.
        """
        group = {"MessageGroupId": letter.group} if letter.group else {}
        await self._sqs("send_message", QueueUrl=self._queue_url, MessageBody=letter.body, **group)
        await self.drop(letter)

    async def drop(self, letter: DeadLetter) -> None:
        """Throw the message away, there or not."""
        await self._sqs("delete_message", QueueUrl=await self.url(), ReceiptHandle=letter.receipt)


async def queue_state(sqs: AwsClient, url: str) -> QueueState:
    """Return how full the queue is, as SQS reckons it; raises StoreError."""
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    said = (await sqs("get_queue_attributes", QueueUrl=url, AttributeNames=names))["Attributes"]
    return QueueState(*(int(said.get(name, 0)) for name in names))


def _letter(message: dict[str, object]) -> DeadLetter:
    attributes = message.get("Attributes")
    said = attributes if isinstance(attributes, dict) else {}
    return DeadLetter(
        id=str(message["MessageId"]),
        body=str(message["Body"]),
        group=str(said.get("MessageGroupId", "")),
        sent_at=datetime.fromtimestamp(float(said.get("SentTimestamp", 0)) / 1000, UTC),
        receipt=str(message["ReceiptHandle"]),
    )
