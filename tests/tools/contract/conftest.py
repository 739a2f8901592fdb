"""Fixtures of the databases: a test with `stack` runs once for each chosen database."""

from tests.support.contract import clock, emptied, pytest_generate_tests, stack

__all__ = ["clock", "emptied", "pytest_generate_tests", "stack"]
