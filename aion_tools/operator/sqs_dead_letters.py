"""Dead letters of an SQS queue, in its dead letter queue."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aion_core.errors import ConfigurationError
from aion_tools.operator.dead_letters import DeadLetter

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient

HIDDEN_SECONDS = 60
"""Visibility timeout in seconds of dead letters after a read, unless they are given back earlier."""

_BATCH = 10
"""Maximum number of messages in one request or response of SQS."""

_ATTEMPTS = 3
"""Number of requests to release a dead letter."""

READERS = 10
"""Number of concurrent requests to a queue with many dead letters."""


class SQSDeadLetters:
    """Dead letters of one SQS queue (`DeadLetters`). They are in the queue's dead letter queue."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url
        self._url = ""

    async def url(self) -> str:
        """Return the URL of the dead letter queue. Raises ConfigurationError if the queue has no dead letter queue."""
        if not self._url:
            *_, account, name = (await self.arn()).split(":")
            self._url = (await self._sqs("get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account))["QueueUrl"]
        return self._url

    async def arn(self) -> str:
        """Return the ARN of the dead letter queue, which may be deleted. Raises ConfigurationError if there is none."""
        _, arn = await self._arns()
        return arn

    async def read(self, limit: int) -> list[DeadLetter]:
        """Receive up to `limit` dead letters, without duplicates. See `DeadLetters.read`."""
        url, found, requests = await self.url(), dict[str, DeadLetter](), 1
        while limit > len(found):
            left = limit - len(found)
            sizes = [min(_BATCH, left - start) for start in range(0, min(left, requests * _BATCH), _BATCH)]
            responses = await asyncio.gather(*(self._receive(url, size) for size in sizes))
            letters = {letter.id: letter for response in responses for letter in response}
            # Stop also if all letters are known: a read longer than HIDDEN_SECONDS receives its first letters again.
            if letters.keys() <= found.keys():
                break
            found.update(letters)
            # Send one request after a response that is not full: more of them would wait for messages in vain.
            requests = READERS if all(len(response) == _BATCH for response in responses) else 1
        return list(found.values())

    async def _receive(self, url: str, size: int) -> list[DeadLetter]:
        response = await self._sqs(
            "receive_message",
            QueueUrl=url,
            MaxNumberOfMessages=size,
            VisibilityTimeout=HIDDEN_SECONDS,
            # Use long polling. It queries all servers of SQS, so that an empty response means an empty queue.
            WaitTimeSeconds=1,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        return [_letter(message) for message in response.get("Messages", [])]

    async def give_back(self, letters: Sequence[DeadLetter]) -> int:
        """Make received dead letters visible to other readers again. See `DeadLetters.give_back`."""
        batches = [letters[start : start + _BATCH] for start in range(0, len(letters), _BATCH)]
        return sum(await asyncio.gather(*map(self._release, batches)))

    async def _release(self, letters: Sequence[DeadLetter]) -> int:
        """Release up to _BATCH letters, and return the number of those that SQS refuses to release in each attempt."""
        url = await self.url()
        for _ in range(_ATTEMPTS):
            entries = [
                {"Id": str(number), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
                for number, letter in enumerate(letters)
            ]
            answer = await self._sqs("change_message_visibility_batch", QueueUrl=url, Entries=entries)
            # A message that is not in flight is visible already, or deleted.
            refused = [each for each in answer.get("Failed", []) if not each["Code"].endswith("MessageNotInflight")]
            letters = [letters[int(each["Id"])] for each in refused]
            if not letters:
                break
        return len(letters)

    async def redrive(self) -> None:
        """Start SQS's redrive of all dead letters to the queue. It runs in the background."""
        queue, dead_letters = await self._arns()
        # Name the destination queue, because SQS does not know it for messages that were sent directly to the dead
        # letter queue.
        await self._sqs("start_message_move_task", SourceArn=dead_letters, DestinationArn=queue)

    async def drop(self, letter: DeadLetter) -> None:
        """Delete a dead letter from its queue. See `DeadLetters.drop`."""
        await self._sqs("delete_message", QueueUrl=await self.url(), ReceiptHandle=letter.receipt)

    async def _arns(self) -> tuple[str, str]:
        """Return the ARNs of the queue and its dead letter queue. Raises ConfigurationError if one is missing."""
        names = ["QueueArn", "RedrivePolicy"]
        response = await self._sqs("get_queue_attributes", QueueUrl=self._queue_url, AttributeNames=names)
        attributes = response.get("Attributes", {})
        policy = json.loads(attributes.get("RedrivePolicy", "{}"))
        if "deadLetterTargetArn" not in policy:
            raise ConfigurationError(f"The queue {self._queue_url} has no dead letter queue.")
        return attributes["QueueArn"], policy["deadLetterTargetArn"]


def _letter(message: dict[str, object]) -> DeadLetter:
    attributes = message.get("Attributes")
    sent_at = attributes.get("SentTimestamp", 0) if isinstance(attributes, dict) else 0
    return DeadLetter(
        id=str(message["MessageId"]),
        body=str(message["Body"]),
        sent_at=datetime.fromtimestamp(float(sent_at) / 1000, UTC),
        receipt=str(message["ReceiptHandle"]),
    )
