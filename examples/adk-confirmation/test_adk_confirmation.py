"""Tool calls that the client confirms or refuses."""

from pathlib import Path

import pytest

from aion_tools.testing import serve


@pytest.mark.parametrize(("answer", "text"), [("yes", "Deleted 3 files."), ("no", "Nothing is deleted.")])
async def test_tool_runs_only_after_confirmation(answer: str, text: str) -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        question = await client.ask("Delete 3 files.")
        assert question.state == "input-required"
        assert question.task is not None
        reply = await client.ask(answer, task_id=question.task.id, context_id=question.context_id)
    assert (reply.state, reply.text) == ("completed", text)
