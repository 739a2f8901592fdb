"""Run of `aion` by an operator, on an emulated stack."""

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from aion_core.aws import client
from aion_core.errors import AionError
from aion_tools.cli.error_text import error_text
from aion_tools.cli.main import aion
from aion_tools.stack.stack import SETTINGS, LocalStack
from tests.support.e2e import forked

STACK = "aion-test"

RunCommand = Callable[..., Result]

ELSEWHERE = ("AION_", "AWS_")
"""Prefixes of the variables that name deployments and credentials; tests remove these variables."""


def registered(stack: LocalStack, name: str = STACK, *, nests: bool = True, **parameters: str) -> str:
    """Create a CloudFormation stack with template.yaml's outputs for the emulated resources.

    As in a project, the stack nests the package's stack, and passes up no output. With `nests=False` it is that stack.
    """
    environment = stack.environment("ApiFunction")
    outputs = {
        "TableName": environment["AION_TABLE"],
        "BucketName": environment["AION_BUCKET"],
        "TaskQueueUrl": environment["AION_TASK_QUEUE_URL"],
        "PushQueueUrl": environment["AION_PUSH_QUEUE_URL"],
        "KeyArn": environment["AION_KMS_KEY"],
    }
    given = {"RetentionDays": "30", "LeaseSeconds": "30", **parameters}
    body: dict[str, Any] = {
        "Parameters": {each: {"Type": "String"} for each in given},
        "Resources": {"Any": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    if nests:
        properties = {"TemplateURL": uploaded(stack, name, body), "Parameters": {each: {"Ref": each} for each in given}}
        nested = {"Type": "AWS::CloudFormation::Stack", "Properties": properties}
        body = {"Parameters": body["Parameters"], "Resources": {"Aion": nested}}
    stack.client("cloudformation").create_stack(
        StackName=name,
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
    )
    return name


def uploaded(stack: LocalStack, name: str, template: dict[str, Any]) -> str:
    """Upload the template of a nested stack, and return its URL."""
    s3, bucket = stack.client("s3"), f"{name}-{stack.emulator.account}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="template.json", Body=json.dumps(template))
    return f"https://{bucket}.s3.amazonaws.com/template.json"


def nested_stack(stack: LocalStack, name: str = STACK) -> str:
    """Return the id of the nested stack with the functions."""
    found = stack.client("cloudformation").describe_stack_resource(StackName=name, LogicalResourceId="Aion")
    return str(found["StackResourceDetail"]["PhysicalResourceId"])


def environ_of(stack: LocalStack) -> dict[str, str]:
    """Return an operator's environment: credentials, region and endpoint, without the deployment's resources."""
    return {**SETTINGS, "AWS_ENDPOINT_URL": stack.endpoint}


def runs(environ: dict[str, str]) -> RunCommand:
    """Return a function that runs `aion` in this process, with the given environment.

    Each command makes its boto3 clients anew, as a process of its own does: a test may have changed boto3.
    """
    others: dict[str, str | None] = {name: None for name in os.environ if name.startswith(ELSEWHERE)}

    def run(*arguments: object, **options: Any) -> Result:
        client._client.cache_clear()
        client._session.cache_clear()
        return CliRunner(env={**others, **environ}).invoke(aion, [*map(str, arguments)], **options)

    return run


def refusal(failed: Result) -> str:
    """Return the sentence printed before exit code 1."""
    assert isinstance(failed.exception, AionError), (failed.output, failed.exception)
    return error_text(failed.exception)


def table(printed: Result) -> list[list[str]]:
    """Return the cells of a printed table, without its header."""
    return [re.split(" {2,}", line) for line in printed.stdout.splitlines()[1:]]


def process(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run `aion` in a separate process."""
    kept = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    return forked.run("aion_tools.cli", *arguments, env={**kept, **environ}, timeout=60)


@contextmanager
def taken_port() -> Iterator[int]:
    """Reserve a port without a server, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def hook(monkeypatch: pytest.MonkeyPatch, event: str, function: Callable[..., Any]) -> None:
    """Register a hook of botocore with each client that a command makes."""
    made = boto3.session.Session.client

    def hooked(*arguments: Any, **options: Any) -> Any:
        client = made(*arguments, **options)
        client.meta.events.register(event, function)
        return client

    monkeypatch.setattr(boto3.session.Session, "client", hooked)


def refuse(code: str, operation: str, message: str = "") -> Callable[..., None]:
    """Return a hook that refuses a request with this error code of AWS."""

    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    return refuse


@contextmanager
def refusing_aws(code: str, message: str = "") -> Iterator[str]:
    """Start a server that refuses all requests with this error code of AWS, and return its URL."""

    class RefusingHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps({"__type": code, "message": message})
            if "X-Amz-Target" not in self.headers:
                body = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), RefusingHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
