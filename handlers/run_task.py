"""SQS batch → a turn for each bell; one that cannot be answered goes back to the queue alone."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch import AsyncBatchProcessor, EventType, async_process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from aion_core import log
from aion_core.bootstrap import build_operations, build_worker, wake_up_of

logger = logging.getLogger(__name__)

operations = build_operations()
worker = build_worker(operations=operations)

Answer = Callable[[SQSRecord, LambdaContext], Awaitable[None]]


# Powertools hands both over by these names: with others each record would fail, and only the queue would know.
async def answer(record: SQSRecord, lambda_context: LambdaContext) -> None:
    """Run the turn of the bell's context whose time has come, as long as this invocation may take."""
    # What is logged from here on of this record is about it; that it failed, too.
    log.note(queue_message_id=record.message_id)
    wake_up = wake_up_of(record.body)
    log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
    left = timedelta(milliseconds=lambda_context.get_remaining_time_in_millis())
    await worker.handle(wake_up, until=datetime.now(UTC) + left)


def handler(event: dict[str, Any], context: LambdaContext, answer: Answer = answer) -> PartialItemFailureResponse:
    """Answer every bell of the batch."""
    # Made anew each time, since it keeps what failed, and a process that is not Lambda's may answer two batches at once.
    # A batch of which nothing was answered is no error of the function's, for which Lambda would slow the others down.
    processor = AsyncBatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=logger)
    with operations.invocation(context):
        return async_process_partial_response(event, answer, processor, context)
