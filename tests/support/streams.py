"""Pure checker of the text received by a reader of a stream."""

from collections.abc import Callable, Iterable, Iterator

from aion_core.engine.records import Delta
from aion_core.engine.stream.event_ids import cursor_of

Chunk = tuple[str, object]
"""SSE id, and its Delta or event."""


def folded(received: Iterable[Chunk]) -> Iterator[tuple[str, Delta, str]]:
    """Yield each chunk's id and Delta, and the text that a client shows after it, by the SDK's artifact rules."""
    shown = ""
    for id_, what in received:
        if isinstance(what, Delta):
            shown = shown + what.text if what.append else what.text
            yield id_, what, shown


def faults_of_text(
    received: Iterable[Chunk], is_true: Callable[[str, str], bool] = lambda id_, text: True
) -> Iterator[str]:
    """Yield a sentence for each chunk that is misplaced, or after which the client shows a wrong text.

    `received`: everything received by one client of a task, in order, over all connections with a Last-Event-ID.
    `is_true` returns True for a chunk's id and the text that the agent had streamed up to this chunk. A text starts
    with a chunk of `append: false` and continues with the very next chunk, perhaps after events.
    """
    received = list(received)
    texts = {id_: text for id_, _, text in folded(received)}
    last, shown = "", None
    for id_, what in received:
        if not isinstance(what, Delta):
            last = id_ or last
            continue
        place, before = cursor_of(id_), cursor_of(last)
        if place is None or place.n == 0:
            yield f"Chunk {id_!r} has no number."
            continue
        if not is_true(id_, texts[id_]):
            yield f"After chunk {id_} ({what}) the reader shows {texts[id_]!r}."
        if before is not None and place <= before:
            yield f"Chunk {id_} came again, or too late: after {last}."
        elif what.append and (shown is None or (place.n > 1 and (place.generation, place.fence, place.n - 1) != shown)):
            yield f"Chunk {id_} continues a text of which the reader has the chunks up to {last or 'none'}."
        last, shown = id_, (place.generation, place.fence, place.n)
