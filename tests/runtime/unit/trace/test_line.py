"""A step as one line of text."""

from aion_core.trace.line import WIDTH, line_of
from aion_core.trace.step import Kind, Step
from tests.support.rows import each_row


@each_row(
    ("step", "line"),
    [
        (Step(1, Kind.NODE, "ask", 0.0, ms=12.4), "node ask 12 ms"),
        (Step(1, Kind.NODE, "ask", 0.0), "node ask …"),
        (
            Step(1, Kind.MODEL, "acme-1", 0.0, ms=2100.0, first_ms=310.0, input_tokens=1200, output_tokens=85),
            "model acme-1 2.1 s (first chunk 310 ms) 1200 → 85 tokens",
        ),
        (
            Step(1, Kind.TOOL, "weather", 0.0, ms=3.0, arguments='{"city":\n "Rome"}', result="sunny"),
            'tool weather 3 ms {"city": "Rome"} → sunny',
        ),
        (
            Step(1, Kind.TOOL, "t", 0.0, ms=3.0, result="no\x1b[31m", error="ValueError"),
            r"tool t 3 ms ✗ ValueError → no\x1b[31m",
        ),
        (Step(1, Kind.TOOL, "t", 0.0, ms=3.0, result="no", error="_OTHER"), "tool t 3 ms ✗ → no"),
        (
            Step(1, Kind.NODE, "n", 0.0, ms=3.0, error="KeyError", where="agent.py:7"),
            "node n 3 ms ✗ KeyError at agent.py:7",
        ),
        (Step(1, Kind.TAKEOVER, "try 2", 0.0, ms=0.0), "takeover try 2"),
    ],
)
def test_line_of_step(step: Step, line: str) -> None:
    assert line_of(step) == line


def test_line_of_step_fits_into_its_width() -> None:
    step = Step(1, Kind.TOOL, "weather", 0.0, ms=3.0, arguments="a" * 4000, result="b" * 4000)
    assert len(line_of(step)) <= WIDTH
    assert "aaa" in line_of(step)
    assert "bbb" in line_of(step)


def test_line_without_content_has_no_values() -> None:
    step = Step(1, Kind.TOOL, "weather", 0.0, ms=3.0, arguments="private", result="private")
    assert line_of(step, content=False) == "tool weather 3 ms"
