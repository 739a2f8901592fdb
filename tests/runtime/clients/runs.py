"""Runs of clients against servers, several at once: most of a run is waiting for the silent stream."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache

from tests.runtime.clients.cells import Cell
from tests.runtime.clients.clients import Client, texts_of
from tests.runtime.clients.expected import Texts
from tests.runtime.clients.served import served

AT_ONCE = 6


@contextmanager
def runs(
    asked: Iterable[tuple[str, Client, Sequence[Cell]]],
) -> Iterator[Callable[[str, Client, Sequence[Cell]], Texts]]:
    """Run these clients, and yield a function that waits for the texts of one run."""
    with ExitStack() as servers, ThreadPoolExecutor(AT_ONCE) as pool:

        @cache
        def url(form: str) -> str:
            return servers.enter_context(served(form))

        started: dict[tuple[str, str, tuple[str, ...]], Future[Texts]] = {}
        for form, client, cells in asked:
            started[form, client.name, names(cells)] = pool.submit(texts_of, client, url(form), cells)
        try:
            yield lambda form, client, cells: started[form, client.name, names(cells)].result()
        finally:
            pool.shutdown(cancel_futures=True)


def names(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(cell.name for cell in cells)
