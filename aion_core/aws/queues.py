"""Bells on SQS, with the promises of `ports.Bells` and `ports.PushBells`.

A message holds ids, and nothing that anybody said.
"""

import hashlib
import math
from typing import TYPE_CHECKING, Any

from aion_core.ports.bells import LONGEST_DELAY, Bell, PushBell, body_of, push_body_of

if TYPE_CHECKING:
    from aion_core.aws.client import Calls


class SQSBells:
    """`ports.Bells` on one standard queue."""

    def __init__(self, sqs: "Calls", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def ring(self, bell: Bell, *, delay: float = 0.0) -> None:
        """See `ports.Bells.ring`."""
        await self._sqs("send_message", **self._message(bell, delay))

    def ring_from_thread(self, bell: Bell, *, delay: float = 0.0) -> None:
        """See `ports.Bells.ring_from_thread`."""
        self._sqs.blocking("send_message", **self._message(bell, delay))

    def _message(self, bell: Bell, delay: float) -> dict[str, Any]:
        return _message(self._queue_url, body_of(bell), bell.context.owner, delay)


class SQSPushBells:
    """`ports.PushBells` on one standard queue."""

    def __init__(self, sqs: "Calls", *, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    async def ring(self, bell: PushBell, *, delay: float = 0.0) -> None:
        """See `ports.PushBells.ring`."""
        message = _message(self._queue_url, push_body_of(bell), bell.task.owner, delay)
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
