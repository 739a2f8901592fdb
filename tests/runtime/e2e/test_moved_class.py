"""Two processes with two versions of a project and one store: a class was moved while a task waits, or in its turn."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.stack.stack import LocalStack
from tests.support.e2e.api_process import api_process
from tests.support.server import TIMEOUT
from tests.support.service import send

MODELS = "from pydantic import BaseModel\n\n\nclass Order(BaseModel):\n    item: str\n    count: int\n"

AGENT = """
import os
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt

from models import Order


class State(TypedDict):
    messages: Annotated[list, add_messages]
    order: Order | None


def take(state):
    return {"order": Order(item="lamp", count=3)}


def ask(state):
    if state["messages"][-1].content == "die" and "DIES" in os.environ:
        os._exit(1)
    return {"messages": [("ai", f"{interrupt('Confirm?')}: {state['order']!r}")]}


graph = StateGraph(State).add_node("take", take).add_node("ask", ask)
graph = graph.add_edge(START, "take").add_edge("take", "ask").add_edge("ask", END).compile()
"""


def project(folder: Path, agent: str = AGENT, **modules: str) -> Path:
    """Write a project, and return the path of its aion.yaml."""
    folder.mkdir()
    for name, source in {"agent": agent, **modules}.items():
        (folder / f"{name}.py").write_text(source)
    (folder / "aion.yaml").write_text("aion:\n  agents:\n    shop: {path: agent.py:graph}\n")
    return folder / "aion.yaml"


def post(url: str, text: str, **message: Any) -> dict[str, Any]:
    answer = httpx.post(url, json=send(text, **message), headers={"A2A-Version": "1.0"}, timeout=TIMEOUT).json()
    task: dict[str, Any] = answer["result"]["task"]
    text = task["status"]["message"]["parts"][0]["text"]
    return {"id": task["id"], "state": task["status"]["state"], "text": text}


NAMED = "The stored state has models.Order, which the state of this version of the agent does not have"


def test_second_process_names_class_that_first_process_stored(stack: LocalStack, tmp_path: Path) -> None:
    first = project(tmp_path / "first", models=MODELS)
    moved = AGENT.replace("from models", "from shopping")
    second = project(tmp_path / "second", moved, shopping=MODELS)
    third = project(tmp_path / "third", moved, shopping=MODELS, models="from shopping import Order\n")
    renamed = project(tmp_path / "renamed", models=MODELS.replace("count", "quantity"))
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(tmp_path / "store")}

    with api_process(stack, first, **environ) as process:
        ids = [post(process.url, "hi", message_id=f"m-{number}")["id"] for number in range(3)]
    for config, task_id, state, text in (
        (second, ids[0], "FAILED", NAMED),
        (third, ids[1], "COMPLETED", "yes: Order(item='lamp', count=3)"),
        (renamed, ids[2], "FAILED", "The stored state has an object of models.Order that this version"),
    ):
        with api_process(stack, config, **environ) as process:
            done = post(process.url, "yes", message_id=f"yes-{task_id}", taskId=task_id)
        assert (done["state"], done["text"][: len(text)]) == (f"TASK_STATE_{state}", text)


def test_process_names_class_that_killed_process_stored(stack: LocalStack, tmp_path: Path) -> None:
    """Kill a process in the middle of a turn, and take the turn over in a version with another place of the class."""
    first = project(tmp_path / "first", models=MODELS)
    second = project(tmp_path / "second", AGENT.replace("from models", "from shopping"), shopping=MODELS)
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(tmp_path / "store"), "AION_LEASE_SECONDS": "2"}
    message = {"text": "die", "message_id": "m-1", "contextId": "c-1"}
    with api_process(stack, first, DIES="yes", **environ) as process, pytest.raises(httpx.HTTPError):
        post(process.url, **message)
    with api_process(stack, second, **environ) as process:
        done = post(process.url, **message)
    assert (done["state"], done["text"][: len(NAMED)]) == ("TASK_STATE_FAILED", NAMED)
