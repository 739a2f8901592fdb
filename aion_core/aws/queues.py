"""SQS queues for wake-up messages. A message contains only ids, and no content of tasks."""

import hashlib
import math
from typing import TYPE_CHECKING, Any

from aion_core.engine.queues import PushWakeUp, WakeUp, body_of, limited, push_body_of

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient


VISIBLE = "ApproximateNumberOfMessages"
"""Attribute of an SQS queue: the number of messages that can be received now."""

URGENT = ""
"""Name in place of an owner, for the message group of urgent messages. No owner has it."""


class SQSWorkQueue:
    """Queue of wake-up messages for turns, in one standard SQS queue (`WorkQueue`)."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        """Send a wake-up message for a context to the SQS queue. See `WorkQueue.enqueue`."""
        await self._sqs("send_message", **self._message(wake_up, delay, urgent=urgent))

    async def backlog(self) -> int:
        """Return the number of visible messages in the SQS queue. See `WorkQueue.backlog`."""
        return await _visible(self._sqs, self._queue_url)

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Send a wake-up message to the SQS queue in the calling thread. See `WorkQueue.enqueue_from_thread`."""
        self._sqs.blocking("send_message", **self._message(wake_up, delay))

    def _message(self, wake_up: WakeUp, delay: float, *, urgent: bool = False) -> dict[str, Any]:
        # SQS's fair queues deliver the messages of a group without messages in progress before those of a busy group.
        return _message(self._queue_url, body_of(wake_up), URGENT if urgent else wake_up.context.owner, delay)


class SQSPushQueue:
    """Queue of wake-up messages for push deliveries, in one standard SQS queue (`PushQueue`)."""

    def __init__(self, sqs: "AwsClient", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """Send a wake-up message for a push delivery to the SQS queue. See `PushQueue.enqueue`."""
        message = _message(self._queue_url, push_body_of(wake_up), wake_up.task.owner, delay)
        await self._sqs("send_message", **message)

    async def backlog(self) -> int:
        """Return the number of visible messages in the SQS queue. See `PushQueue.backlog`."""
        return await _visible(self._sqs, self._queue_url)


async def _visible(sqs: "AwsClient", queue_url: str) -> int:
    answer = await sqs("get_queue_attributes", QueueUrl=queue_url, AttributeNames=[VISIBLE])
    return int(answer["Attributes"][VISIBLE])


def _message(queue_url: str, body: str, owner: str, delay: float) -> dict[str, Any]:
    return {
        "QueueUrl": queue_url,
        "MessageBody": body,
        # Round up to whole seconds, as SQS requires, because a late message is better than an early one.
        "DelaySeconds": math.ceil(limited(delay)),
        # Group messages by owner, so that with SQS's fair queues one owner's many messages do not delay other owners.
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
        # Hash the owner, because a message group's name has at most 128 characters, and an owner's name may contain
        # characters that SQS refuses.
        "MessageGroupId": hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32],
    }
