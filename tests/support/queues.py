"""Number of messages in a queue: visible, in flight, and delayed."""

from aion_tools.stack.stack import LocalStack

_COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    # Count delayed messages too, because a queue could look empty without them.
    "ApproximateNumberOfMessagesDelayed",
)


def received(stack: LocalStack, queue: str) -> list[str]:
    """Return the bodies of the queue's next messages; wait for the first one, because a redrive takes time."""
    for _ in range(6):
        answer = stack.client("sqs").receive_message(QueueUrl=stack.physical_id(queue), WaitTimeSeconds=20)
        if "Messages" in answer:
            return [message["Body"] for message in answer["Messages"]]
    raise AssertionError(f"{queue} is empty")


def messages_in(stack: LocalStack, queue: str) -> int:
    """Return the number of messages in the stack's queue of this logical id."""
    answer = stack.client("sqs").get_queue_attributes(QueueUrl=stack.physical_id(queue), AttributeNames=list(_COUNTED))
    return sum(int(answer["Attributes"][name]) for name in _COUNTED)
