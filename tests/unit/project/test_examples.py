"""The example agent of each framework, asked in this process."""

from pathlib import Path

import pytest

from aion_core.project.files import OBJECTS, Project, rendered
from aion_core.project.origin import Origin
from aion_core.testing import AgentClient, serve


@pytest.fixture(params=list(OBJECTS))
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    files = rendered(Project("my-agent", request.param, Origin()))
    for path in ("agent.py", "aion.yaml"):
        (tmp_path / path).write_text(files[path])
    return tmp_path / "aion.yaml"


async def count(client: AgentClient, text: str) -> None:
    reply = await client.ask(text)
    expected = f"Your message has {len(text.split())} words."
    assert (reply.state, reply.text, "".join(reply.chunks)) == ("completed", expected, expected)
    assert len(reply.chunks) > 1


async def test_example_answers_and_streams(config: Path) -> None:
    async with serve(config) as client:
        assert client.card.name == "My agent"
        assert [skill.id for skill in client.card.skills] == ["count-words"]
        await count(client, "How many words are these?")
        await count(client, "Hello")


async def test_example_goes_on_with_conversation(config: Path) -> None:
    async with serve(config) as client:
        first = await client.ask("one two three")
        second = await client.ask("four", context_id=first.context_id)
    assert second.text == "Your message has 1 words."
