"""Errors in exception groups."""

import pytest

from aion_core.engine.process.exception_groups import ungrouped
from aion_core.errors import StoreError, StoreUnavailable


def test_ungrouped_error_keeps_its_cause() -> None:
    """boto3's error is the cause of a store error, and the log prints it."""
    error = StoreUnavailable("GetItem: ConnectTimeoutError")
    error.__cause__ = cause = OSError("timed out")
    with pytest.raises(StoreUnavailable) as raised, ungrouped(StoreError):
        raise ExceptionGroup("g", [error])
    assert raised.value is error
    assert error.__cause__ is cause
    assert error.__suppress_context__
