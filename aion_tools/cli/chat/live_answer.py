"""An answer in the terminal while it is received: each line is printed once, and only the end of the text stays live."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Self

from aion_tools.cli.chat.content import Answer
from aion_tools.cli.chat.output import blocks_of, markdown_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment, SegmentLines

FRAME_SECONDS = 1 / 12
"""Shortest time between two drawings of the end of the text."""

DRAWING_SHARE = 4
"""Drawing takes at most one in this many seconds, however long the last block is."""


class LiveAnswer:
    """View of an answer that is being received. Call it with the answer after each event.

    A Markdown block that has ended is printed once. Of the last block, only the lines in the window are drawn again while
    it grows; the lines above are printed. A table is printed as a whole, since each row may change the widths of its
    columns. A new message is printed below the last one.
    """

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._answer = Answer()
        self._drawn = ""
        """Text of the answer in the last frame."""
        self._text = ""
        """Text whose blocks are shown."""
        self._is_message = False
        """True if the text has a whole message. A text that was only streamed may still change."""
        self._artifacts: list[str] = []
        """Texts of the artifacts that are shown."""
        self._ended = 0
        """Number of the text's characters in blocks that have ended. They are printed."""
        self._lines = 0
        """Number of printed lines of the last block."""
        self._fixed = 0
        """Number of the text's characters that were known when the last line was printed."""
        self._is_first = True
        """True until a block has ended: each later block has an empty line above it."""
        self._is_open = True
        self._notes: list[str] = []
        """Lines of `note` that are not printed yet."""

    @property
    def task_id(self) -> str:
        """Id of the answer's task, as soon as it is known."""
        return self._answer.task_id

    def __call__(self, answer: Answer) -> None:
        """Draw the answer in the next frame."""
        self._answer = answer

    async def __aenter__(self) -> Self:
        self._live.start()
        self._frames = asyncio.create_task(self._draw_frames())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        self._frames.cancel()
        with suppress(asyncio.CancelledError):
            await self._frames

    def note(self, line: str) -> None:
        """Print a line above the answer. If the answer has begun, the line is printed after its end, by `print_notes`."""
        self._notes.append(line)
        if not self._drawn and self._is_open:
            self.print_notes()

    def print_notes(self) -> None:
        """Print the lines that `note` has kept."""
        for each in self._notes:
            self._console.print(each, style="dim", no_wrap=True, overflow="ellipsis")
        self._notes = []

    def close(self) -> None:
        """Print the rest of the text received so far. Show nothing that is received later."""
        if self._is_open:
            self._is_open = False
            self._live.update("")
            self._live.stop()
            self._take(self._answer.shown, is_whole=True)
            self._print(self._last_lines()[self._lines :])

    async def _draw_frames(self) -> None:
        while self._is_open:
            began = time.monotonic()
            self.draw()
            await asyncio.sleep(max(FRAME_SECONDS, (time.monotonic() - began) * DRAWING_SHARE))

    def draw(self) -> None:
        """Draw the answer now, if its text has changed."""
        if (text := self._answer.shown) == self._drawn or not self._is_open:
            return
        self._drawn = text
        self._take(text)
        lines = self._last_lines()
        # Leave the last line of the window free, because the cursor stands there.
        above = max(len(lines) - self._console.height + 1, 0)
        if above > self._lines and not _has_table(self._text[self._ended :]):
            self._print(lines[self._lines : above])
            self._lines, self._fixed = above, len(self._text)
        self._live.update(_renderable(lines[max(above, self._lines) :]), refresh=True)

    def _take(self, text: str, *, is_whole: bool = False) -> None:
        """Take the text as the one to show, and print the blocks of it that have ended."""
        artifacts = list(self._answer.artifacts.values())
        if self._text.strip().startswith(text.strip()):
            return  # after the loss of its process, an agent begins again with what it has said
        is_continued = text.startswith(self._text[: max(self._ended, self._fixed)])
        if not is_continued or (self._is_message and not text.startswith(self._text)):
            if artifacts != self._artifacts and not is_whole:
                return  # a text above the last one has changed: show it once, when the answer is complete
            self._begin_below(text)
        self._text, self._is_message, self._artifacts = text, bool(self._answer.text), artifacts
        for block in blocks_of(text[self._ended :])[:-1]:
            self._print(self._rendered(block)[self._lines :])
            self._end_block(len(block))

    def _begin_below(self, text: str) -> None:
        """Print the rest of the last text. The new text begins after the paragraphs that both have."""
        self._print(self._last_lines()[self._lines :])
        paragraphs = zip(self._text.split("\n\n"), text.split("\n\n"), strict=False)
        same = takewhile(lambda pair: pair[0] == pair[1], paragraphs)
        self._ended = self._fixed = sum(len(each) + len("\n\n") for each, _ in same)
        self._end_block(0)

    def _end_block(self, length: int) -> None:
        self._ended += length
        self._lines, self._is_first = 0, False

    def _last_lines(self) -> "list[list[Segment]]":
        return self._rendered(self._text[self._ended :])

    def _rendered(self, block: str) -> "list[list[Segment]]":
        lines = [_stripped(each) for each in self._console.render_lines(markdown_of(block), pad=False)]
        while lines and _is_empty(lines[0]):
            del lines[0]
        while lines and _is_empty(lines[-1]):
            del lines[-1]
        return lines if self._is_first or not lines else [[], *lines]

    def _print(self, lines: "Sequence[list[Segment]]") -> None:
        if lines:
            self._console.print(_renderable(lines), end="")


def _has_table(text: str) -> bool:
    return any(token.type == "table_open" for token in markdown_of(text).parsed)


def _stripped(line: "list[Segment]") -> "list[Segment]":
    """Return the line without the spaces with which rich fills it, except on a background."""
    for place, segment in reversed(list(enumerate(line))):
        if segment.style is not None and segment.style.bgcolor is not None:
            return line[: place + 1]
        if text := segment.text.rstrip():
            return [*line[:place], segment._replace(text=text)]
    return []


def _is_empty(line: "list[Segment]") -> bool:
    return not "".join(segment.text for segment in line).strip()


def _renderable(lines: "Sequence[list[Segment]]") -> "SegmentLines":
    from rich.segment import SegmentLines

    return SegmentLines(lines, new_lines=True)
