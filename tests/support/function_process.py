"""Function behind a queue or a schedule in its own process, with its own access key.

`python -m tests.support.function_process <handler> [<queue url>]`, in the function's environment.
"""

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aion_core.local.lambda_events import LambdaContext, sqs_event
from aion_core.local.stack import LocalStack, client_of
from tests.support.forked import ForkedProcess

ARN = "arn:aws:sqs:us-east-1:123456789012:queue"


def signed_by(function: str) -> dict[str, str]:
    """Return the variables to identify its requests as the function's."""
    return {"AWS_ACCESS_KEY_ID": function}


@contextmanager
def function_process(stack: LocalStack, function: str, queue: str = "", **environ: str) -> Iterator[None]:
    """Run the function for each message of the queue, or each second without a queue."""
    handler = stack.template.resolved(function, "Handler")["Handler"]
    arguments = [handler, *([stack.physical_id(queue)] if queue else [])]
    environment = {**os.environ, **stack.environment(function), **signed_by(function), **environ}
    process = ForkedProcess(__name__, *arguments, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main(handler: str, queue_url: str = "") -> None:
    module, _, name = handler.rpartition(".")
    handle: Any = getattr(importlib.import_module(module), name)
    print("ready", flush=True)
    if not queue_url:
        while True:
            handle({}, LambdaContext("function", "arn", 256, 60))
            threading.Event().wait(1)
    # On AWS Lambda receives the messages, not the function.
    sqs = client_of("sqs", os.environ["AWS_ENDPOINT_URL"])

    def work(message: dict[str, object]) -> None:
        context = LambdaContext("function", "arn", 1024, 900)
        failed = handle(sqs_event([message], ARN), context)["batchItemFailures"]
        if not failed:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])

    while True:
        found = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=1, MessageSystemAttributeNames=["All"])
        for message in found.get("Messages", []):
            threading.Thread(target=work, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
