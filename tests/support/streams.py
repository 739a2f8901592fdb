"""What a reader may receive of a stream: a pure checker of its text (invariant I6)."""

from collections.abc import Callable, Iterable, Iterator

from aion_core.ports import Delta
from aion_core.tasks.broadcast import cursor_of

Chunk = tuple[str, object]
"""The SSE id of something received, and the thing itself: a Delta, or an event."""


def faults_of_text(received: Iterable[Chunk], streamed: Callable[[str], Delta | None] | None = None) -> Iterator[str]:
    """Yield a sentence for each chunk by which the text shown is no longer a prefix of the true one.

    `received`: everything that one client received of a task, in order, over all connections on which it came back with
    its last SSE id. `streamed` returns the chunk that the turn streamed under an id, None if it streamed none.
    A text starts with a chunk that says `append: false`, goes on with the very next chunk, and ends with the next event.
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
