"""Streamed text of a turn: the chunks of one model call form a stream delta, which opens and closes."""

from aion_core.engine.agent import Chunk
from aion_core.engine.records import COMPLETE, CUT, Delta
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.stream.delta_writer import PAGE_CHARACTERS, DeltaWriter


class TurnText:
    """Text of the agent in one turn: live for this process's client, and written for readers in others."""

    def __init__(self, deltas: DeltaWriter, broadcast: EventBroadcast) -> None:
        self._deltas, self._broadcast = deltas, broadcast
        self._open_call: str | None = None
        """Message id of the open stream delta; None without an open one."""

    def add(self, chunk: Chunk) -> None:
        """Stream a text chunk of the agent at once. The chunks of one model call form a stream delta.

        A stream delta stays open until its last chunk, an abort, its whole message, the next text or the end of the
        turn. Other emissions may be recorded while it is open.
        """
        if chunk.breaks_off and self._open_call == chunk.message_id:
            self.close(CUT)
        if self._open_call not in (None, chunk.message_id) and chunk.text:
            # Close the earlier text, because readers receive one text at a time.
            self.close(COMPLETE)
        # Split a long chunk into pages, because the size of an item is limited.
        for start in range(0, len(chunk.text), PAGE_CHARACTERS):
            opens = self._open_call is None
            page = chunk.text[start : start + PAGE_CHARACTERS]
            self._stream(Delta(page, append=not opens, speaker=chunk.speaker if opens else None))
            self._open_call = chunk.message_id
        if chunk.ends and self._open_call == chunk.message_id:
            self.close(COMPLETE)

    def close_with(self, message_id: str) -> None:
        """Close the open stream delta if it is of this message, which is now complete."""
        if message_id == self._open_call:
            self.close(COMPLETE)

    def close(self, reason: str) -> None:
        """Close the open stream delta, if there is one. `reason` is COMPLETE or CUT."""
        if self._open_call is not None:
            self._stream(Delta("", append=True, last=True, reason=reason))
            self._open_call = None

    def _stream(self, delta: Delta) -> None:
        self._broadcast.publish(self._deltas.add(delta), delta)
