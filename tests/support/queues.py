"""How many messages a queue holds: those to be had, those that somebody has, and those that are still to come."""

from aion_core.local.stack import LocalStack

_COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    # A bell that was rung for later is on its way: a queue that looks empty without it is not.
    "ApproximateNumberOfMessagesDelayed",
)


def messages_in(stack: LocalStack, queue: str) -> int:
    """The messages in the stack's queue of that logical id."""
    answer = stack.client("sqs").get_queue_attributes(QueueUrl=stack.physical_id(queue), AttributeNames=list(_COUNTED))
    return sum(int(answer["Attributes"][name]) for name in _COUNTED)
