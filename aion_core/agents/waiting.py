"""What waits for the log at the same time: emissions that share a transaction, and stream events that need no wait."""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from aion_core.engine.agent import Batch, Durable, Emission
from aion_core.engine.task.transition import MOST_TOGETHER

T = TypeVar("T")


def together(emissions: Iterable[Emission]) -> Iterator[Emission]:
    """Yield the emissions in order; those that are recorded, and follow one another, in Batches of up to MOST_TOGETHER.

    If `emissions` raises an error, the emissions before it are yielded first.
    """
    waiting: list[Durable] = []
    iterator = iter(emissions)
    while True:
        try:
            emission = next(iterator)
        except StopIteration:
            break
        except BaseException:  # an agent's code may raise any exception
            yield from _batch(waiting)
            raise
        if isinstance(emission, Durable):
            waiting.append(emission)
            if len(waiting) == MOST_TOGETHER:
                # Another agent may send thousands of files at once: record these before the next ones are made.
                yield from _batch(waiting)
                waiting = []
            continue
        yield from _batch(waiting)
        waiting = []
        yield emission
    yield from _batch(waiting)


def _batch(waiting: list[Durable]) -> Iterator[Emission]:
    if len(waiting) > 1:
        yield Batch(waiting)
    else:
        yield from waiting


class EagerStream(Generic[T]):
    """Async iterator of a stream, which also returns the items that the stream yields without a wait."""

    def __init__(self, stream: AsyncIterator[T]) -> None:
        self._stream = stream
        self._begun: _BegunStep[T] | None = None

    def __aiter__(self) -> "EagerStream[T]":
        return self

    def __anext__(self) -> Awaitable[T]:
        begun, self._begun = self._begun, None
        return self._stream.__anext__() if begun is None else begun

    def waiting(self, wanted: Callable[[T], bool]) -> Iterator[T]:
        """Yield the next items that the stream yields without a wait, as long as they are wanted."""
        while self._begun is None:
            begun = _BegunStep(self._stream.__anext__())
            if begun.has_item() and wanted(begun.item):
                yield begun.item
            else:
                self._begun = begun

    async def stop(self) -> None:
        """Cancel the step that was begun and not awaited, if there is one. Without this, the stream cannot be closed."""
        begun, self._begun = self._begun, None
        if begun is not None:
            with suppress(CancelledError, StopAsyncIteration):
                await begun.cancel()


class _BegunStep(Generic[T]):
    """Step of a stream that ran until its first wait. Await it for the stream's item.

    asyncio could run the step as a task, but then the stream's code would run in another context at each step.
    """

    item: T

    def __init__(self, step: Awaitable[T]) -> None:
        self._step = step.__await__()
        self._waits_for: Any = None
        self._waits = False
        self._error: BaseException | None = None
        try:
            self._waits_for = self._step.send(None)
            self._waits = True
        except StopIteration as returned:
            self.item = returned.value
        except BaseException as error:  # the stream may raise any exception
            self._error = error

    def has_item(self) -> bool:
        """Return True if the step has ended with an item."""
        return not self._waits and self._error is None

    async def cancel(self) -> None:
        """Raise CancelledError where the step waits, and run it to its end. Raises what the step raises."""
        if self._waits:
            self._error = CancelledError()
            await self

    def __await__(self) -> Generator[Any, None, T]:
        if not self._waits:
            if self._error is not None:
                raise self._error
            return self.item
        try:
            waits_for = self._waits_for if self._error is None else self._step.throw(self._error)
            while True:
                try:
                    yield waits_for
                except BaseException as raised:  # what the event loop raises in a wait
                    waits_for = self._step.throw(raised)
                else:
                    waits_for = self._step.send(None)
        except StopIteration as returned:
            self.item = returned.value
        return self.item
