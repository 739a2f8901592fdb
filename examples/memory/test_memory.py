"""Facts remembered in one conversation and listed in another."""

from pathlib import Path

from aion_tools.testing import serve


async def test_agent_remembers_facts_in_another_conversation() -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        assert (await client.ask("What do you know?")).text == "I know nothing yet."
        assert (await client.ask("remember I like tea")).text == "I have stored it."
        await client.ask("remember Ada is my sister")
        assert (await client.ask("What do you know?")).text == "Ada is my sister; I like tea"
