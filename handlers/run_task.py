"""TaskFunction: runs a turn for each wake-up message of an SQS batch. Only failed messages return to the queue."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch import AsyncBatchProcessor, EventType, async_process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from aion_core import log
from aion_core.bootstrap import build_telemetry, build_worker, unusable_table_logged, wake_up_of

logger = logging.getLogger(__name__)

telemetry = build_telemetry()
worker = build_worker(telemetry=telemetry)


# Keep the names of the parameters, because Powertools passes them as keyword arguments.
async def answer(record: SQSRecord, lambda_context: LambdaContext) -> None:
    """Run the next turn of the context in a wake-up message, until the invocation's timeout."""
    # Label the later log lines about this SQS message, including the line about its failure.
    log.note(queue_message_id=record.message_id)
    wake_up = wake_up_of(record.body)
    log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
    left = timedelta(milliseconds=lambda_context.get_remaining_time_in_millis())
    with unusable_table_logged():
        await worker.handle(wake_up, until=datetime.now(UTC) + left)


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Handle an SQS batch of wake-up messages. Return the ids of failed messages."""
    # Use a new processor for each batch: it stores the failures, and a local stack handles several batches at once.
    # If all messages fail, return their ids: after an exception, Lambda would reduce the function's concurrency.
    processor = AsyncBatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=logger)
    with telemetry.invocation(context):
        return async_process_partial_response(event, answer, processor, context)
