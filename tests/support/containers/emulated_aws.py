"""Emulated AWS (ministack) that runs deployed Lambda functions in containers."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.support import ministack
from tests.support.containers.engine import DockerEngine

FUNCTION_URL = "f" * 32
"""The id that tests/support/ministack_program.py gives to the Function URL."""


@contextmanager
def emulated_aws(engine: DockerEngine) -> Iterator[str]:
    """Run ministack on the engine's bridge until the block ends; yield its address. Afterwards remove its containers."""
    name = f"aion-test-{os.getpid()}"
    with TemporaryDirectory(prefix="ministack-") as folder:
        settings = {
            "LAMBDA_EXECUTOR": "docker",
            # Fail without docker instead of running functions in ministack's process.
            "LAMBDA_STRICT": "1",
            "DOCKER_HOST": engine.host,
            "MINISTACK_DOCKER_TIMEOUT": "120",
            # Start of the containers' label: ministack removes only containers with its own label.
            "MINISTACK_HOSTNAME": name,
            "TMPDIR": folder,  # for the unpacked packages
        }
        with (
            ExitStack() as afterwards,
            ministack.serving(ministack.DEPLOYMENT, host=engine.gateway, **settings) as endpoint,
        ):
            label = f"label=ministack.instance={name}:{urlsplit(endpoint).port}"
            afterwards.callback(engine.remove, "--filter", label)
            yield endpoint


def function_url(endpoint: str) -> str:
    """Return the address of the deployed stack's Function URL."""
    return f"{endpoint}/_aws/lambda-url/{FUNCTION_URL}"
