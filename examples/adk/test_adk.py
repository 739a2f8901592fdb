"""Agent whose model calls a tool: the answer contains the tool's result."""

from pathlib import Path

from aion_tools.testing import serve


async def test_adk_agent_streams_result_of_tool() -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        reply = await client.ask("How many words are these?")
    assert (reply.state, reply.text) == ("completed", "Your message has 5 words.")
    assert reply.chunks == ("Your", " message", " has", " 5", " words.")
