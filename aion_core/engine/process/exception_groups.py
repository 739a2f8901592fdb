"""The error to report of an exception group."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ungrouped(*classes: type[Exception]) -> Iterator[None]:
    """Context manager: if its block raises an exception group with an error of these classes, raise this error instead.

    The agent's code may call the store in an `asyncio.TaskGroup`, and ADK runs parallel agents in one. If the group has
    errors of the agent too, the turn runs again, and fails then if the agent fails again.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        if (error := _error_in(group, classes)) is None:
            raise
        raise error from error.__cause__  # keep the cause for the log, such as boto3's error


def _error_in(error: BaseException, classes: tuple[type[Exception], ...]) -> BaseException | None:
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, classes) else None
    return next((found for each in error.exceptions if (found := _error_in(each, classes)) is not None), None)
