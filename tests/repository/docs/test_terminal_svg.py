"""Recorded terminal of the README: lines, frames and times of its SVG."""

import re
from xml.etree import ElementTree

import pytest
from pyte.screens import Char

from scripts.terminal import IMAGE, LONGEST_SECONDS, shortened
from scripts.terminal_svg import LAST_SECONDS, Frame, Line, svg_of

SVG = "{http://www.w3.org/2000/svg}"


def line(text: str, **style: object) -> Line:
    return tuple(Char(char, **style) for char in f"{text:12}")  # type: ignore[arg-type]


def frame(at: float, *panes: str) -> Frame:
    return at, tuple((line(text), line("")) for text in panes)


def test_terminal_svg_stores_line_repeated_in_frames_once() -> None:
    frames = [frame(0, "$ a <b>", ""), frame(1, "$ a <b>", "out"), frame(3, "$ a <b>", "out 2")]
    root = ElementTree.fromstring(svg_of(frames, ["one", "two"], label="A & B"))  # noqa: S314  # our own text
    drawn = ["".join(each.itertext()).rstrip() for each in root.findall(f"{SVG}defs/{SVG}g")]
    assert drawn == ["$ a <b>", "out", "out 2"]
    film = root.find(f".//{SVG}g[@id='film']")
    assert film is not None
    assert [[use.get("href") for use in each] for each in film] == [["#l0"], ["#l0", "#l1"], ["#l0", "#l2"]]
    assert root.get("aria-label") == "A & B"


def test_terminal_svg_shows_frames_at_recorded_times() -> None:
    text = svg_of([frame(0, "a"), frame(1, "b"), frame(5, "c")], ["one"], label="x")
    assert f"film {5 + LAST_SECONDS:.2f}s step-end" in text
    assert re.findall(r"([\d.]+)%\{transform:translateX\(-?(\d+)px", text)[:3] == [
        ("0.00", "0"),
        ("10.00", text.split("translateX(-")[2].split("px")[0]),
        ("50.00", text.split("translateX(-")[3].split("px")[0]),
    ]
    assert "prefers-reduced-motion" in text


def test_terminal_svg_draws_bold_coloured_and_reversed_text() -> None:
    mixed = (*line("bold", bold=True)[:4], *line("red", fg="red")[:3], *line("bar", reverse=True)[:3])
    text = svg_of([(0, ((mixed,),))], ["one"], label="x")
    assert 'class="b" xml:space="preserve">bold<' in text
    assert 'fill="#ff7b72"' in text
    assert text.count("<rect ") == 3, "the background, the title, and the reversed text"


def test_svg_recording_shortens_long_pauses() -> None:
    frames = shortened([frame(1, "a"), frame(1.5, "b"), frame(30, "c")])
    assert [at for at, _ in frames] == pytest.approx([0, 0.5, 0.5 + LONGEST_SECONDS])


def test_terminal_recording_in_docs_shows_worker_taking_over_a_turn() -> None:
    text = "".join(ElementTree.parse(IMAGE).getroot().itertext())  # noqa: S314  # our own file
    assert "aion chat" in text
    assert "took over the turn (try 2)" in text
    assert IMAGE.stat().st_size < 200_000
