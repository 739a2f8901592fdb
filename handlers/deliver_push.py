"""PushFunction: sends the push notifications of an SQS batch. Only failed messages return to the queue."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch import AsyncBatchProcessor, EventType, async_process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from aion_core import log
from aion_core.bootstrap import build_push, build_telemetry, push_wake_up_of, unusable_table_logged

logger = logging.getLogger(__name__)

telemetry = build_telemetry()
delivery = build_push(telemetry=telemetry)


# Keep the names of the parameters, because Powertools passes them as keyword arguments.
async def deliver_one(record: SQSRecord, lambda_context: LambdaContext) -> None:
    """Deliver the pending push notifications of the task in a wake-up message, until the invocation's timeout."""
    # Label the later log lines about this SQS message, including the line about its failure.
    log.note(queue_message_id=record.message_id)
    wake_up = push_wake_up_of(record.body)
    log.note(task_id=wake_up.task.task_id)
    left = timedelta(milliseconds=lambda_context.get_remaining_time_in_millis())
    with unusable_table_logged():
        await delivery.deliver(wake_up, until=datetime.now(UTC) + left)


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Handle an SQS batch of wake-up messages. Return the ids of failed messages."""
    # Use a new processor for each batch, and raise no error if all messages fail: see the reasons in run_task.py.
    processor = AsyncBatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=logger)
    with telemetry.invocation(context):
        return async_process_partial_response(event, deliver_one, processor, context)
