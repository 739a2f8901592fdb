"""Test of the agent. An A2A client sends it a message; the server runs in this process."""

from pathlib import Path

import pytest
from aion_tools.testing import serve


async def test_agent_counts_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)  # the scripted model answers
    async with serve(Path(__file__).parents[1] / "aion.yaml") as client:
        reply = await client.ask("How many words are these?")
    assert reply.state == "completed"
    assert "5" in reply.text
