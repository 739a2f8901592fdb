import math

import pytest
from aws_lambda_powertools.logging.lambda_context import build_lambda_context_model

from aion_core.lambda_runtime.invocation import Invocation, InvocationContext
from aion_core.lambda_runtime.settings import RuntimeSettings

SETTINGS = RuntimeSettings.from_environ(
    {
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
        "AWS_LAMBDA_FUNCTION_NAME": "agent-api",
        "AWS_LAMBDA_FUNCTION_VERSION": "7",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/agent-api",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/03/27/[7]0f1e2d3c4b5a",
    }
)
HEADERS = {
    "lambda-runtime-aws-request-id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
    "lambda-runtime-deadline-ms": "4102444800000",
    "lambda-runtime-invoked-function-arn": "arn:aws:lambda:eu-west-1:123456789012:function:agent-api:live",
}
CONTEXT = InvocationContext.of(Invocation.from_response(HEADERS, b""), SETTINGS)


def test_lambda_context_has_attribute_names_used_by_powertools() -> None:
    model = build_lambda_context_model(CONTEXT)
    assert model.__dict__ == {
        "function_name": "agent-api",
        "function_memory_size": 1024,
        "function_arn": "arn:aws:lambda:eu-west-1:123456789012:function:agent-api:live",
        "function_request_id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
    }


def test_remaining_invocation_time_is_never_negative() -> None:
    over = Invocation.from_response(HEADERS | {"lambda-runtime-deadline-ms": "1"}, b"")
    assert InvocationContext.of(over, SETTINGS).get_remaining_time_in_millis() == 0
    assert over.seconds_left() < 0
    assert 0 < CONTEXT.get_remaining_time_in_millis() < math.inf


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"lambda-runtime-aws-request-id": "r"},
        {"lambda-runtime-aws-request-id": "r", "lambda-runtime-deadline-ms": "soon"},
    ],
)
def test_invocation_needs_id_and_deadline(headers: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError)):
        Invocation.from_response(headers, b"{}")
