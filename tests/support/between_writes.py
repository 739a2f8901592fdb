"""A process's table and blobs, between whose writes a test lets something happen: another process writes, or this one dies."""

from collections.abc import Awaitable, Callable
from typing import Any

_WRITES = ("write", "transact", "put", "put_new", "delete", "delete_all")


class Died(BaseException):
    """The end of a process between two of its writes. No code catches it, as no code survives a kill."""


class BetweenWrites:
    """Count of the writes of one process, on any of its ports. Before write number `at`, from 1, `act` runs."""

    def __init__(self, at: int = 0, act: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.made = 0
        self._at, self._act = at, act

    def of(self, port: Any) -> Any:
        """Return a table or blobs as this process uses them."""
        return _Port(port, self)

    async def another(self) -> None:
        """Count a write, and let `act` happen before it."""
        self.made += 1
        if self._act is not None and self.made == self._at:
            await self._act()


class _Port:
    def __init__(self, port: Any, writes: BetweenWrites) -> None:
        self._port, self._writes = port, writes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in _WRITES:
            return method

        async def write(*given: Any, **options: Any) -> Any:
            await self._writes.another()
            return await method(*given, **options)

        return write
