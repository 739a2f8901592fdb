"""Code blocks of docs/adk.md."""

import re
from pathlib import Path
from typing import Any

from tests.support.adk import answer_text, ask, served
from tests.support.rows import each_row
from tests.support.service import http, parts

PAGE = Path(__file__).parents[5] / "docs" / "adk.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ANSWERS = ["You sent 0 files.", "It is done.", "One moment."]


@each_row(("block", "answer"), list(zip(BLOCKS, ANSWERS, strict=True)))
async def test_agents_in_adk_guide_answer_messages(block: str, answer: str) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block, "docs/adk.md", "exec"), names)  # noqa: S102  # our own page
    async with http(parts(served(names["root_agent"])).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == answer
