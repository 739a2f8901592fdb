"""Docker engine of the tests with containers."""

from tests.support.containers.fixtures import engine

__all__ = ["engine"]
