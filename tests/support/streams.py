"""Pure checker of the text received by a reader of a stream."""

from collections.abc import Callable, Iterable, Iterator

from aion_core.ports import Delta
from aion_core.tasks.broadcast import cursor_of

Chunk = tuple[str, object]
"""SSE id, and its Delta or event."""


def faults_of_text(received: Iterable[Chunk], streamed: Callable[[str], Delta | None] | None = None) -> Iterator[str]:
    """Yield a sentence for each chunk after which the shown text is no prefix of the true one.

    `received`: everything received by one client of a task, in order, over all connections with a Last-Event-ID.
    `streamed` returns the turn's chunk of an id, None without one. A text starts with a chunk of `append: false`,
    continues with the very next chunk, and ends with the next event.
    """
    last, shown = "", None
    for id_, what in received:
        if not isinstance(what, Delta):
            if id_:
                last, shown = id_, None
            continue
        place, before = cursor_of(id_), cursor_of(last)
        if place is None or place.n == 0:
            yield f"Chunk {id_!r} has no number."
            continue
        if streamed is not None and streamed(id_) != what:
            yield f"Chunk {id_} is {what}, and {streamed(id_)} was streamed."
        if before is not None and place <= before:
            yield f"Chunk {id_} came again, or too late: after {last}."
        elif what.append and (shown is None or (place.generation, place.fence, place.n - 1) != shown):
            yield f"Chunk {id_} continues a text of which the reader has the chunks up to {last or 'none'}."
        last, shown = id_, (place.generation, place.fence, place.n)
