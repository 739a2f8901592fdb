"""Docker engine of the test session, with Lambda's image."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.containers.engine import ContainersMissing, DockerEngine, DockerError, running_engine
from tests.support.containers.lambda_image import lambda_image
from tests.support.containers.own_engine import own_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    """Use the running docker engine, or start one. Skip the tests with the reason if this machine can run no container."""
    with ExitStack() as until_the_end:
        try:
            try:
                engine = running_engine()
            except DockerError as error:
                engine = until_the_end.enter_context(own_engine(str(error)))
            until_the_end.enter_context(lambda_image(engine))
        except ContainersMissing as reason:
            pytest.skip(str(reason))
        yield engine
