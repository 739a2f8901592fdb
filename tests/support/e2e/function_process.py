"""Process of a Lambda function behind a queue or a schedule. Tests can kill it; its access key names the function.

Run `python -m tests.support.e2e.function_process <handler> <queue url or seconds between calls>` with the function's variables.
"""

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from aion_tools.stack.lambda_events import LambdaContext, sqs_event
from aion_tools.stack.stack import LocalStack, client_of
from tests.support.e2e.forked import ForkedProcess

ARN = "arn:aws:sqs:us-east-1:123456789012:queue"
POLLED_AT = "TEST_POLLED_AT"
"""Variable with the emulator's URL for the poller, if the function calls AWS through a proxy."""


def signed_by(function: str) -> dict[str, str]:
    """Return variables with the function's name as access key, so that the emulator can tell the functions apart."""
    return {"AWS_ACCESS_KEY_ID": function}


@contextmanager
def function_process(
    stack: LocalStack, function: str, queue: str = "", seconds: float = 1.0, /, **environ: str
) -> Iterator[ForkedProcess]:
    """Run the function for each message of the queue or, without a queue, every `seconds`; yield its process."""
    handler = stack.template.resolved(function, "Handler")["Handler"]
    source = stack.physical_id(queue) if queue else str(seconds)
    environment = {**os.environ, **stack.environment(function), **signed_by(function), **environ}
    process = ForkedProcess(__name__, handler, source, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def task_process(stack: LocalStack, config: Path, *, sweeps: float = 0.0, **environ: str) -> Iterator[ForkedProcess]:
    """Run TaskFunction on the task queue, and SweepFunction every `sweeps` seconds (0: never); yield TaskFunction's process."""
    environ |= {"AION_CONFIG": str(config)}
    with ExitStack() as running:
        if sweeps:
            running.enter_context(function_process(stack, "SweepFunction", "", sweeps, **environ))
        yield running.enter_context(function_process(stack, "TaskFunction", "TaskQueue", **environ))


def main(handler: str, source: str) -> None:
    module, _, name = handler.rpartition(".")
    handle: Any = getattr(importlib.import_module(module), name)
    print("ready", flush=True)
    if not source.startswith("http"):
        while True:
            threading.Event().wait(float(source))
            try:
                handle({}, LambdaContext("function", "arn", 256, 60))
            except Exception as error:
                # Print the error and continue, because a failed invocation does not stop the schedule on AWS.
                print(f"{name}: {error!r}", file=sys.stderr)
    # Poll the queue directly, not through the function's proxy, because the Lambda service polls the queue on AWS.
    sqs = client_of("sqs", os.environ.get(POLLED_AT, os.environ["AWS_ENDPOINT_URL"]))

    def work(message: dict[str, object]) -> None:
        context = LambdaContext("function", "arn", 1024, 900)
        failed = handle(sqs_event([message], ARN), context)["batchItemFailures"]
        if not failed:
            sqs.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])

    while True:
        found = sqs.receive_message(QueueUrl=source, WaitTimeSeconds=1, MessageSystemAttributeNames=["All"])
        for message in found.get("Messages", []):
            threading.Thread(target=work, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
