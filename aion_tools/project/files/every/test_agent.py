"""Test of the agent. An A2A client sends it a message; the server runs in this process."""

from pathlib import Path

from aion_tools.testing import serve


async def test_agent_counts_words() -> None:
    async with serve(Path(__file__).parents[1] / "aion.yaml") as client:
        reply = await client.ask("How many words are these?")
    assert reply.state == "completed"
    assert "5" in reply.text
