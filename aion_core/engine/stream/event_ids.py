"""Event ids of a stream (SSE `id`): a cursor as `generation`, or as `generation.fence.n` after a chunk of text. Pure."""

from aion_core.engine.records import Cursor


def event_id(cursor: Cursor) -> str:
    """Return the id of the stream item directly before the cursor: an event, or the chunk number `n - 1`."""
    return f"{cursor.generation}.{cursor.fence}.{cursor.n - 1}" if cursor.n else str(cursor.generation)


def cursor_of(sse_id: str) -> Cursor | None:
    """Return the cursor after the stream item with this id; None if it is not an event id of aion."""
    steps = sse_id.split(".")
    if len(steps) not in (1, 3) or not all(step.isascii() and step.isdecimal() and len(step) < 12 for step in steps):
        return None
    if len(steps) == 1:
        return Cursor(int(steps[0]))
    generation, fence, number = (int(step) for step in steps)
    return Cursor(generation, fence, number + 1)
