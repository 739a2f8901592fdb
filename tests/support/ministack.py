"""ministack as a process: AWS on a free port, from its own environment.

ministack needs another botocore version than the project, so it cannot be in the project's lock.
"""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.support.environments import python_with

ACCOUNT = "000000000000"
TIMEOUT = 120

DEPLOYMENT = (
    "apigateway,appconfig,cloudformation,cloudwatch,codedeploy,dynamodb,ecr,events,iam,kms,lambda,logs,s3,sns,sqs,sts"
)
"""Services of a deployment."""

REQUIREMENTS = Path(__file__).with_name("ministack.txt")
PROGRAM = Path(__file__).with_name("ministack_program.py")

SETTINGS = {
    "MINISTACK_ACCOUNT_ID": ACCOUNT,
    "LOG_LEVEL": "WARNING",
    # Disable docker, unless a test runs the functions in containers (`containers/emulated_aws.py`).
    "DOCKER_HOST": "unix:///nowhere",
    # Disable these services, because they would listen on ports of their own.
    "IOT_MTLS_ENABLED": "0",
    "SFTP_ENABLED": "0",
}


class MinistackError(Exception):
    """ministack does not start."""


@contextmanager
def serving(services: str = "dynamodb,kms,s3,sqs", *, host: str = "127.0.0.1", **settings: str) -> Iterator[str]:
    """Run ministack with these settings until the block ends; yield its address once ministack responds."""
    python = python_with(REQUIREMENTS)
    with tempfile.TemporaryFile() as printed:
        # Bind the port in this process, so that no other process can take it before ministack listens.
        with socket.create_server((host, 0), backlog=512) as listener:
            port, number = listener.getsockname()[1], listener.fileno()
            # Pass no AWS settings of this machine.
            given = {"PATH": os.environ.get("PATH", ""), "GATEWAY_PORT": str(port), "SERVICES": services}
            process = subprocess.Popen(
                # Use the isolated mode, because this folder has a module named ministack.
                [python, "-I", PROGRAM, str(number)],
                env={**given, "MINISTACK_HOST": host, **SETTINGS, **settings},
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=[number],
            )
        try:
            try:
                _answers(host, port)
            except (OSError, HTTPException) as error:
                printed.seek(0)
                said = printed.read().decode(errors="replace")
                raise MinistackError(f"ministack does not answer ({error}); it has said:\n{said}") from error
            yield f"http://{host}:{port}"
        finally:
            process.kill()
            process.communicate()


def _answers(host: str, port: int) -> None:
    # Connect early: the connection waits until ministack has started, and ends if ministack's process ends.
    connection = HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/_ministack/health")
        answer = connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"{answer.status} {answer.reason}")
    finally:
        connection.close()
