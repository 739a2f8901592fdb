"""Bells on SQS, with the promises of `ports.WorkQueue` and `ports.PushQueue`.

A message holds ids, and nothing that anybody said.
"""

import hashlib
import math
from typing import TYPE_CHECKING, Any

from aion_core.ports.queues import LONGEST_DELAY, PushWakeUp, WakeUp, body_of, push_body_of

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
        # Whole seconds only: rather late than early.
        "DelaySeconds": min(max(math.ceil(delay), 0), LONGEST_DELAY),
        # On a standard queue a group orders nothing: one owner's many bells do not hold up another's few.
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
        "MessageGroupId": _group(owner),
    }


def _group(owner: str) -> str:
    # A group's name has 128 characters at most, and not every character that an owner may have.
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
