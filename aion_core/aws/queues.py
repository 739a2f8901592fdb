"""Bells on SQS, with the promises of `ports.Bells` and `ports.PushBells`.

A message holds ids, and nothing that anybody said.
"""

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from aion_core.errors import UnreadableBell
from aion_core.ports import Bell, ContextKey, PushBell, TaskKey

if TYPE_CHECKING:
    # Whoever only reads bells need not wait for boto3.
    from aion_core.aws.client import Calls

VERSION = 1

LONGEST_DELAY = 900
"""More than so many seconds ahead SQS takes no message."""


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


def body_of(bell: Bell) -> str:
    """Return the message that holds the bell."""
    context = bell.context
    ids = {"owner": context.owner, "agent": context.agent, "context_id": context.context_id, "fence": bell.fence}
    # ASCII, since SQS refuses some of the characters that an id may hold.
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def push_body_of(bell: PushBell) -> str:
    """Return the message that holds the bell of a notification."""
    ids = {"owner": bell.task.owner, "task_id": bell.task.task_id, "generation": bell.generation}
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def bell_of(body: str) -> Bell:
    """Return the bell that the message holds; raises UnreadableBell that says what is wrong with it."""
    match _said(body):
        case {"owner": str(owner), "agent": str(agent), "context_id": str(context_id), "fence": int(fence)} if (
            owner and agent and context_id
        ):
            return Bell(ContextKey(owner, agent, context_id), fence)
    raise UnreadableBell(
        "The bell does not say in text whose, which agent's and which context it rings in, and over which lease it watches."
    )


def push_bell_of(body: str) -> PushBell:
    """Return the bell of a notification; raises UnreadableBell that says what is wrong with it."""
    match _said(body):
        case {"owner": str(owner), "task_id": str(task_id), "generation": int(generation)} if owner and task_id:
            return PushBell(TaskKey(owner, task_id), generation)
    raise UnreadableBell("The bell does not say in text whose and which task it is of, and which of its events.")


def _said(body: str) -> dict[str, Any]:
    """Return what the message says; raises UnreadableBell where it says nothing, or in another version's words."""
    try:
        said = json.loads(body)
    except ValueError:
        raise UnreadableBell("The message is not JSON: nothing of aion's has put it into this queue.") from None
    if not isinstance(said, dict) or "v" not in said:
        raise UnreadableBell("The message has no version: nothing of aion's has put it into this queue.")
    if said["v"] != VERSION:
        raise UnreadableBell(
            f"The bell is of version {said['v']!r}, and this function reads {VERSION}. Deploy it as new as its sender."
        )
    return said


def _group(owner: str) -> str:
    # A group's name has 128 characters at most, and not every character that an owner may have.
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]
