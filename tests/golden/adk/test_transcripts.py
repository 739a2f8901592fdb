"""Streams of an ADK agent compared frame by frame with transcripts, as in `tests/golden`."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import test_transcripts as golden
from tests.golden.adk import agents
from tests.support.adk import served
from tests.support.rows import rows_in

pytestmark = pytest.mark.timeout(30)

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.sse"))


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_stream_matches_its_transcript(transcript: Path, record_property: Callable[[str, object], None]) -> None:
    """Each transcript names the rows that it proves."""
    record_property("rows", " ".join(rows_in(transcript.read_text(encoding="utf-8"))))
    name, _, version = transcript.stem.partition(".")
    written = golden.read(transcript)
    agent = served(getattr(agents, name)())
    heard = await golden.hear(agent, [exchange.text for exchange in written], golden.METHODS[version])
    if heard != written:
        lines = golden.lines(written), golden.lines(heard)
        pytest.fail("\n".join(difflib.unified_diff(*lines, "written", "heard", lineterm="", n=4)), pytrace=False)


def test_each_case_is_written_in_both_versions() -> None:
    """D1: the same turn is told in either dialect."""
    cases = {path.stem.partition(".")[0] for path in TRANSCRIPTS}
    assert cases
    assert {path.name for path in TRANSCRIPTS} == {f"{case}.{ver}.sse" for case in cases for ver in golden.METHODS}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_a_valid_stream(transcript: Path) -> None:
    """R28, R32, R35, R103, D10, D11, of what is written."""
    golden.test_transcript_is_a_valid_stream(transcript)
