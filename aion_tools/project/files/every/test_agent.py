"""Tests of the agent through the A2A protocol; the server runs in this process and stores tasks in memory."""

from pathlib import Path

from aion_tools.testing import serve

CONFIG = Path(__file__).parents[1] / "aion.yaml"


async def test_agent_counts_words() -> None:
    async with serve(CONFIG) as client:
        reply = await client.ask("How many words are these?")
    assert reply.state == "completed"
    assert reply.text == "Your message has 5 words."


async def test_agent_streams_its_answer() -> None:
    async with serve(CONFIG) as client:
        reply = await client.ask("Hello there")
    assert "".join(reply.chunks) == "Your message has 2 words."
    assert len(reply.chunks) > 1
