"""Variables of a turn: what the author's code finds of the turn in which it runs."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class variable_set(AbstractContextManager[None], Generic[T]):  # noqa: N801  # used like a function
    """Context manager in which a context variable has a value. It is a class, because each turn enters two."""

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        try:  # noqa: SIM105  # `suppress` makes three calls
            self._variable.reset(self._token)
        except ValueError:
            # Another asyncio task closes the agent's async generator, so that the token belongs to another context.
            pass
