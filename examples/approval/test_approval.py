"""Payments with and without an approval."""

from pathlib import Path

import pytest

from aion_tools.testing import serve

CONFIG = Path(__file__).with_name("aion.yaml")


async def test_small_amount_is_paid_without_approval() -> None:
    async with serve(CONFIG) as client:
        reply = await client.ask("pay 20 to Ada")
    assert (reply.state, reply.text) == ("completed", "I have paid 20.")


@pytest.mark.parametrize(
    ("answer", "text"),
    [("approve", "I have paid 250."), ("reject", "I have not paid 250."), ("yes?", "I have not paid 250.")],
)
async def test_large_amount_waits_for_approval(answer: str, text: str) -> None:
    async with serve(CONFIG) as client:
        question = await client.ask("pay 250 to Ada")
        assert (question.state, question.text) == ("input-required", "May I pay 250?")
        assert question.task is not None
        reply = await client.ask(answer, task_id=question.task.id, context_id=question.context_id)
    assert (reply.state, reply.text) == ("completed", text)
