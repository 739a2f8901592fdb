"""SQS batch → push notifications for each bell; one that cannot be answered goes back to the queue alone."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch import AsyncBatchProcessor, EventType, async_process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from aion_core import log
from aion_core.bootstrap import build_operations, build_push, push_wake_up_of

logger = logging.getLogger(__name__)

operations = build_operations()
delivery = build_push(operations=operations)


# Powertools hands both over by these names: with others each record would fail, and only the queue would know.
async def deliver_one(record: SQSRecord, lambda_context: LambdaContext) -> None:
    """Post what is to be posted for the bell's task, as long as this invocation may take."""
    # What is logged from here on of this record is about it; that it failed, too.
    log.note(queue_message_id=record.message_id)
    wake_up = push_wake_up_of(record.body)
    log.note(task_id=wake_up.task.task_id)
    left = timedelta(milliseconds=lambda_context.get_remaining_time_in_millis())
    await delivery.deliver(wake_up, until=datetime.now(UTC) + left)


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Answer every bell of the batch."""
    # Made anew each time, and no error of the function's where nothing was answered: see run_task.
    processor = AsyncBatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=logger)
    with operations.invocation(context):
        return async_process_partial_response(event, deliver_one, processor, context)
