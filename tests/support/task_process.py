"""TaskFunction and SweepFunction in a killable process; it polls the queue of a remote stack.

`python -m tests.support.task_process <queue url> <seconds between sweeps, 0 for none>`, in TaskFunction's environment.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aion_core.local.lambda_events import LambdaContext, sqs_event
from aion_core.local.stack import LocalStack, client_of
from tests.support.forked import ForkedProcess

ARN = "arn:aws:sqs:us-east-1:123456789012:tasks"


@contextmanager
def task_process(stack: LocalStack, config: Path, *, sweeps: float = 0.0, **environ: str) -> Iterator[ForkedProcess]:
    """Run the turns of the stack's queue; yield the process once it polls."""
    environment = {**os.environ, **stack.environment("TaskFunction"), **environ, "AION_CONFIG": str(config)}
    arguments = (stack.physical_id("TaskQueue"), str(sweeps))
    process = ForkedProcess(__name__, *arguments, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"polling\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main(queue_url: str, sweeps: float) -> None:
    from handlers import run_task, sweep

    sqs = client_of("sqs", os.environ["AWS_ENDPOINT_URL"])
    print("polling", flush=True)

    def work(message: dict[str, object]) -> None:
        context = LambdaContext("task", "arn", 1024, 900)
        run_task.handler(sqs_event([message], ARN), context)  # type: ignore[arg-type]
        sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])

    def sweep_now_and_then() -> None:
        while True:
            threading.Event().wait(sweeps)
            sweep.handler({}, None)

    if sweeps:
        threading.Thread(target=sweep_now_and_then, daemon=True).start()
    while True:
        found = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=1, MessageSystemAttributeNames=["All"])
        for message in found.get("Messages", []):
            threading.Thread(target=work, args=(message,), daemon=True).start()


if __name__ == "__main__":
    asyncio.set_event_loop(None)
    main(sys.argv[1], float(sys.argv[2]))
