"""Code blocks of docs/adk.md."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.adk import answer_text, ask, served
from tests.support.rows import each_row
from tests.support.service import http, parts
from tests.support.waiting import Conversation, text_of

PAGE = Path(__file__).parents[5] / "docs" / "adk.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ANSWERS = ["hi: Tuesday to Sunday, 10:00 to 18:00", "You sent 0 files.", "It is done.", "One moment."]


@each_row(("block", "answer"), list(zip(BLOCKS[:-1], ANSWERS, strict=True)))
async def test_agents_in_adk_guide_answer_messages(block: str, answer: str) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block, "docs/adk.md", "exec"), names)  # noqa: S102  # our own page
    async with http(parts(served(names["root_agent"])).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == answer


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
async def test_tool_in_adk_guide_sleeps_without_process() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(BLOCKS[-1], "docs/adk.md", "exec"), names)  # noqa: S102  # our own page
    conversation = Conversation(lambda _: served(names["root_agent"]))
    task = await conversation.send("Call Ann.")
    assert text_of(task).startswith("Waiting until")
    task = await conversation.passes(task, 3600)
    assert text_of(task) == "You wanted to be reminded: Call Ann."
