"""Stream of the echo agent, word by word."""

from pathlib import Path

from aion_tools.testing import serve


async def test_echo_streams_each_word() -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        reply = await client.ask("Hello, who is there?")
    assert (reply.state, reply.text) == ("completed", "Hello, who is there?")
    assert reply.chunks == ("Hello,", " who", " is", " there?")
