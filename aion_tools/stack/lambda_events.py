"""Events of queues and schedules as Lambda passes them to a function, and the context of an invocation."""

import base64
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aion_tools.template.reader import Place


def sqs_event(messages: Sequence[Mapping[str, Any]], queue_arn: str) -> dict[str, Any]:
    """Convert messages of an SQS ReceiveMessage response into the event that Lambda passes to a function."""
    return {"Records": [_sqs_record(message, queue_arn) for message in messages]}


def _sqs_record(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    record = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": {name: str(value) for name, value in message.get("Attributes", {}).items()},
        "messageAttributes": {
            name: _sqs_attribute(value) for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def _sqs_attribute(attribute: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": attribute["DataType"]}
    if "StringValue" in attribute:
        value["stringValue"] = attribute["StringValue"]
    if "BinaryValue" in attribute:
        value["binaryValue"] = base64.b64encode(attribute["BinaryValue"]).decode()
    return value


def schedule_event(kind: str, name: str, properties: Mapping[str, Any], place: Place) -> Any:
    """Return the event of a schedule in the template, either `Schedule` (an EventBridge rule) or `ScheduleV2`.

    ScheduleV2 uses EventBridge Scheduler. If the schedule has an `Input`, the event is this input.
    """
    if "Input" in properties:
        return json.loads(properties["Input"])
    is_rule = kind == "Schedule"
    source, resource = ("events", f"rule/{name}") if is_rule else ("scheduler", f"schedule/default/{name}")
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": f"aws.{source}",
        "account": place.account,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": place.region,
        "resources": [f"arn:aws:{source}:{place.region}:{place.account}:{resource}"],
        # Write `detail` as text for EventBridge Scheduler, and as an object for a rule, as AWS does.
        "detail": {} if is_rule else "{}",
    }


@dataclass(frozen=True)
class LambdaContext:
    """Context passed to a function's handler, with the attributes of Lambda's context."""

    function_name: str
    invoked_function_arn: str
    memory_limit_in_mb: int
    timeout: int
    function_version: str = "$LATEST"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log_stream_name: str = "local"
    identity: None = None
    client_context: None = None
    tenant_id: None = None
    _started: float = field(default_factory=time.monotonic)

    @property
    def log_group_name(self) -> str:
        """Name of the function's log group on Lambda."""
        return f"/aws/lambda/{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the function's timeout. The local poller does not enforce the timeout."""
        return max(0, round((self._started + self.timeout - time.monotonic()) * 1000))
