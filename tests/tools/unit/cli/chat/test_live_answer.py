"""An answer in a terminal while it is received: what stands in the scrollback and in the window at the end."""

import io
from typing import Any

import pyte
import pytest
from rich.console import Console

from aion_tools.cli.chat.content import Answer
from aion_tools.cli.chat.live_answer import LiveAnswer

COLUMNS, LINES = 60, 10


async def lines_of(*steps: dict[str, Any], closes_after: int = 100) -> list[str]:
    """Show an answer that changes in these steps, each in a frame, and return the lines of the terminal that have text."""
    file = io.StringIO()
    console = Console(file=file, width=COLUMNS, height=LINES, force_terminal=True, color_system=None)
    async with LiveAnswer(console) as live:
        answer = Answer()
        for place, step in enumerate(steps):
            for name, value in step.items():
                setattr(answer, name, value)
            live(answer)
            if place == closes_after:
                live.close()
            live.draw()
    screen = pyte.HistoryScreen(COLUMNS, LINES, history=1000, ratio=0.01)
    pyte.Stream(screen).feed(file.getvalue().replace("\n", "\r\n"))
    above = ["".join(line[column].data for column in range(COLUMNS)) for line in screen.history.top]
    return [line.rstrip() for line in [*above, *screen.display] if line.strip()]


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([{"streamed": "one "}, {"streamed": "one two"}, {"text": "one two."}], ["one two."]),
        ([{"streamed": "lost"}, {"streamed": "new"}, {"text": "new."}], ["new."]),
        ([{"text": "Let me look."}, {"text": "Sun."}, {"text": "Sun.\n\nWind."}], ["Let me look.", "Sun.", "Wind."]),
        (
            [{"streamed": "One.\n\nTwo"}, {"streamed": "On"}, {"streamed": "One.\n\nTwo. Three."}],
            ["One.", "Two. Three."],
        ),
        (
            [{"text": "Reading."}, {"text": "", "artifacts": {"a": "one"}}, {"artifacts": {"a": "one two"}}],
            ["Reading.", "one two"],
        ),
        (
            [
                {"text": "m1", "artifacts": {"a": "A"}, "artifacts_before": 1},
                {"text": "m2"},
                {"artifacts": {"a": "A B"}},
            ],
            ["A", "m1", "m2", "A B", "m2"],
        ),
        ([{"streamed": "- one\n- two"}, {"streamed": "- one\n- two\n\nEnd"}], [" • one", " • two", "End"]),
        ([{"streamed": "a | b"}, {"streamed": "a | b\n--|--\n1 | 2"}], [" a  b", " ────", " 1  2"]),
    ],
    ids=["growing", "restarted", "messages", "repeated", "artifact", "interleaved", "list", "table"],
)
async def test_each_text_is_shown_once(steps: list[dict[str, Any]], lines: list[str]) -> None:
    assert await lines_of(*steps) == lines


@pytest.mark.parametrize(
    "separator", ["\n\n", " ", "\n- ", "\n1. "], ids=["paragraphs", "paragraph", "list", "numbers"]
)
async def test_text_higher_than_window_has_each_word_once(separator: str) -> None:
    words = [f"word{number:03}" for number in range(200)]
    texts = [separator.join(words[:end]) for end in range(20, 201, 20)]
    shown = " ".join(await lines_of(*({"streamed": text} for text in texts), {"text": texts[-1]}))
    assert [word for word in shown.split() if word.startswith("word")] == words


async def test_nothing_is_shown_after_close() -> None:
    steps = ({"streamed": text} for text in ("one", "one two", "one two three"))
    assert await lines_of(*steps, closes_after=1) == ["one two"]
