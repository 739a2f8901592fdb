"""Code blocks of docs/langgraph.md, executed."""

import inspect
import re
from pathlib import Path
from typing import Any

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.loading.objects.per_turn import per_turn_factory
from tests.support.rows import each_row
from tests.support.service import http, parts, send

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "langgraph.md").read_text(), re.MULTILINE | re.DOTALL)
ANSWERS = [
    "Words: 1.",
    "You sent 0 files.",
    "One moment.",
    "You said hi.",
    "Here it is.",
    "Which day?",
    "Notes so far: 0.",
    "I speak en.",
]


@each_row(("block", "answer"), list(zip(BLOCKS, ANSWERS, strict=True)))
async def test_graphs_in_langgraph_guide_give_expected_answers(block: str, answer: str) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block, "docs/langgraph.md", "exec"), names)  # noqa: S102  # our own page
    graph = names["graph"]
    if inspect.isfunction(graph):
        factory = per_turn_factory(graph, "graph")
        assert factory is not None
        graph = LangGraphAgent(factory)
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
        assert task["status"]["message"]["parts"][0]["text"] == answer
        if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            reply = send("Tuesday", message_id="m-2", contextId=task["contextId"])
            task = (await client.post("/", json=reply)).json()["result"]["task"]
            assert task["status"]["message"]["parts"][0]["text"] == "Booked for Tuesday."
