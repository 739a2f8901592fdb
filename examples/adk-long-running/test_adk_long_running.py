"""Client that sends the result of a long-running tool, as text and as data."""

from pathlib import Path

import pytest
from a2a.types import Part
from google.protobuf.json_format import ParseDict

from aion_tools.testing import serve


@pytest.mark.parametrize("result", [Part(text="approved"), ParseDict({"data": {"result": "approved"}}, Part())])
async def test_tool_result_completes_waiting_task(result: Part) -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        waiting = await client.ask("Refund 30 euros.")
        assert waiting.state == "input-required"
        assert waiting.task is not None
        reply = await client.ask(parts=[result], task_id=waiting.task.id, context_id=waiting.context_id)
    assert (reply.state, reply.text) == ("completed", "Your refund is approved.")
    assert reply.task is not None
    assert reply.task.id == waiting.task.id
