"""Stores and queues with failing calls."""

from collections import Counter
from typing import Any

from aion_core.errors import StoreUnavailable


class Failing:
    """Adapter whose next calls of chosen operations raise StoreUnavailable, before or after they take effect."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._error: Exception | None = None
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        """Number of calls of each operation, including failed ones."""

    def refuse(self, error: Exception | None = None, /, **times: int) -> None:
        """Let the next calls of each named operation fail, this many times, without executing them."""
        self._error = error
        self._before.update(times)

    def lose_answers(self, **times: int) -> None:
        """Let the next calls of each named asynchronous operation fail after executing them, this many times."""
        self._after.update(times)

    def heal(self) -> None:
        """Stop all failures."""
        self._before.clear()
        self._after.clear()

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._adapter, name)
        if not callable(operation):
            return operation

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if self._before[name] > 0:
                self._before[name] -= 1
                raise self._error or StoreUnavailable(f"{name}: ThrottlingException")
            if self._after[name] > 0:
                self._after[name] -= 1
                return _lost(name, operation(*arguments, **options))
            return operation(*arguments, **options)

        return call


async def _lost(name: str, answer: Any) -> None:
    await answer
    raise StoreUnavailable(f"{name}: ReadTimeoutError")
