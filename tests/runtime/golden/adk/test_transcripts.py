"""Streams of ADK agents, compared frame by frame with transcripts; tests/runtime/golden/test_transcripts.py describes the format."""

import difflib
from pathlib import Path

import pytest

from tests.runtime.golden import test_transcripts as golden
from tests.runtime.golden.adk import agents
from tests.support.adk import served
from tests.support.rows import each_row

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.sse"))


@each_row("transcript", TRANSCRIPTS)
async def test_adk_stream_matches_its_golden_transcript(transcript: Path) -> None:
    name, _, version = transcript.stem.partition(".")
    expected = golden.read(transcript)
    agent = served(getattr(agents, name)())
    actual = await golden.hear(agent, [exchange.text for exchange in expected], golden.METHODS[version])
    if actual != expected:
        lines = golden.lines(expected), golden.lines(actual)
        pytest.fail("\n".join(difflib.unified_diff(*lines, "expected", "actual", lineterm="", n=4)), pytrace=False)


def test_each_adk_case_has_transcripts_in_both_protocol_versions() -> None:
    cases = {path.stem.partition(".")[0] for path in TRANSCRIPTS}
    assert cases
    assert {path.name for path in TRANSCRIPTS} == {f"{case}.{ver}.sse" for case in cases for ver in golden.METHODS}
