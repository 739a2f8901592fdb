"""Table summaries: a table sent as text or as file, and a message without a table."""

from pathlib import Path

from a2a.types import Part

from aion_tools.testing import serve

CONFIG = Path(__file__).with_name("aion.yaml")
SUMMARY = "name: 2 different values\nage: 31 to 45, 38 on average\n"


async def test_csv_table_is_summarised_from_text_or_file() -> None:
    table = "name,age\nAnn,31\nBob,45"
    async with serve(CONFIG) as client:
        for reply in (
            await client.ask(table),
            await client.ask(parts=[Part(raw=table.encode(), filename="table.csv", media_type="text/csv")]),
        ):
            assert reply.state == "completed"
            assert reply.task is not None
            (artifact,) = reply.task.artifacts
            assert "".join(part.text for part in artifact.parts) == SUMMARY


async def test_agent_asks_for_table_if_message_contains_none() -> None:
    async with serve(CONFIG) as client:
        question = await client.ask("Hello")
        assert question.state == "input-required"
        assert question.task is not None
        reply = await client.ask("a\n1", task_id=question.task.id, context_id=question.context_id)
    assert reply.state == "completed"
