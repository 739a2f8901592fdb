"""SQS's StartMessageMoveTask for moto, which lacks it."""

from moto.core.responses import ActionResult
from moto.sqs.responses import SQSResponse


def support_message_moves() -> None:
    """Let moto serve StartMessageMoveTask: it moves the visible messages before it responds."""
    SQSResponse.start_message_move_task = _start_message_move_task


def _start_message_move_task(response: SQSResponse) -> ActionResult:
    backend = response.sqs_backend
    queues = {queue.queue_arn: queue for queue in backend.queues.values()}
    source, destination = (queues[response._get_param(name)] for name in ("SourceArn", "DestinationArn"))
    for message in source.messages:
        # As on AWS: the moved message has a new id and time of sending, and no earlier receives.
        backend.send_message(destination.name, message.body, group_id=message.group_id)
        source._messages.remove(message)
    return ActionResult({"TaskHandle": "moto"})
