"""Answers of the graphs of docs/shapes.md, in both protocol versions, streamed and stored."""

import re
from typing import Any

import pytest
from a2a.types import Message, Part, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict

from tests.runtime.golden.graphs import model_saying
from tests.runtime.unit.agents.folding import text_of
from tests.runtime.unit.agents.langgraph.shapes import PAGE, SHAPES, Shape, page_with_tables
from tests.runtime.unit.agents.usual_agents import METHODS, as_task, both_versions, streamed_turn
from tests.support.histories import before_status, messages_of
from tests.support.service import http, parts, send


def content(part: Part) -> Any:
    """Return the text or the data of a part."""
    return part.text if part.WhichOneof("content") == "text" else MessageToDict(part)["data"]


def check(shape: Shape, task: Task, before: list[Message]) -> None:
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert tuple(map(content, task.status.message.parts)) == shape.answer
    assert tuple(map(text_of, before)) == shape.before


@both_versions
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_shape_answers_as_documented(shape: Shape, version: str) -> None:
    async with http(parts(shape.graph()).app()) as client:
        folded, stored = await streamed_turn(client, send("cats", method=METHODS[version][1]), version)
    answer = folded.task.status.message.message_id
    check(shape, folded.task, [each for each in folded.messages.values() if each.message_id != answer])
    assert tuple(folded.texts) == shape.streamed
    check(shape, stored, [each for each in before_status(stored) if each.role == Role.ROLE_AGENT])
    for artifacts in (folded.artifacts, stored.artifacts):
        assert [each.name for each in artifacts] == ([shape.artifact] if shape.artifact else [])


async def test_graph_of_the_page_answers_with_its_report() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "shapes"}
    exec(compile(block, "docs/shapes.md", "exec"), names)  # noqa: S102  # our own page
    names["model"] = model_saying(["Notes ", "on cats."])
    async with http(parts(names["graph"]).app()) as client:
        task = as_task((await client.post("/", json=send("cats"))).json()["result"])
    assert [text_of(each) for each in messages_of(task)] == ["cats", "Notes on cats.", "# Report on cats"]


def test_page_lists_the_tested_shapes() -> None:
    """After a change, write the page's tables by `python -m tests.runtime.unit.agents.langgraph.shapes`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_tables(page) == page
