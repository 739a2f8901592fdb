"""Files sent to the agent, and returned as artifacts."""

from pathlib import Path

from a2a.types import Part

from aion_tools.testing import serve


async def test_agent_returns_text_files_in_upper_case() -> None:
    sent = [
        Part(raw=b"quiet", filename="one.txt", media_type="text/plain"),
        Part(raw="leise grüße".encode(), filename="two.txt", media_type="text/plain"),
    ]
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        reply = await client.ask("Shout them.", parts=sent)
    assert reply.text == "2 files."
    assert reply.task is not None
    found = {artifact.parts[0].filename: artifact.parts[0].raw.decode() for artifact in reply.task.artifacts}
    assert found == {"one.txt": "QUIET", "two.txt": "LEISE GRÜSSE"}
