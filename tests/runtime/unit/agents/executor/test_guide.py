"""The example executor and the code of docs/executor.md."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.agents.executor.executors import served
from tests.support.deployment import at, deployed
from tests.support.isolated import isolated_imports
from tests.support.server import ROOT
from tests.support.service import http, send

TABLE = "name,age\nAnn,31\nBob,45\n"


@asynccontextmanager
async def table_agent() -> AsyncIterator[httpx.AsyncClient]:
    config = str(ROOT / "examples" / "executor" / "aion.yaml")
    app = build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": config}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


def summary(task: dict[str, Any]) -> str:
    (artifact,) = task["artifacts"]
    assert artifact["artifactId"] == "summary"
    return "".join(part["text"] for part in artifact["parts"])


async def test_executor_example_summarises_tables() -> None:
    """The table is text, a file, or the answer to a question."""
    async with table_agent() as client:

        async def task_of(body: dict[str, Any]) -> dict[str, Any]:
            return dict((await client.post("/", json=body)).json()["result"]["task"])

        as_text = await task_of(send(TABLE))
        file = {"raw": "bmFtZSxhZ2UKQW5uLDMxCkJvYiw0NQo=", "filename": "people.csv"}
        as_file = await task_of(send(message_id="m-2", parts=[{"text": "sum this up"}, file]))
        asked = await task_of(send("hello", message_id="m-3"))
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert "CSV" in asked["status"]["message"]["parts"][0]["text"]
        answered = await task_of(send(TABLE, message_id="m-4", taskId=asked["id"]))
        refused = send(message_id="m-5", parts=[{"raw": "AAEC", "mediaType": "image/png"}])
        assert (await client.post("/", json=refused)).json()["error"]["code"] == -32005
    for task in (as_text, as_file, answered):
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert summary(task) == "name: 2 different values\nage: 31 to 45, 38 on average\n"


GREETER, SERVER = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "executor.md").read_text(), re.M | re.S)


async def test_server_in_guide_is_served_with_its_card(tmp_path: Path) -> None:
    (tmp_path / "shouting.py").write_text(SERVER, encoding="utf-8")
    with isolated_imports(tmp_path):
        async with at(deployed(tmp_path, "aion: {agents: {shout: {path: shouting.py}}}")) as client:
            card = (await client.get("/.well-known/agent-card.json")).json()
            answer = (await client.post("/", json=send("hello"))).json()["result"]["message"]
    assert (card["name"], answer["parts"]) == ("Shouter", [{"text": "HELLO!"}])


async def test_executor_in_guide_asks_for_name_and_greets() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(GREETER, "docs/executor.md", "exec"), names)  # noqa: S102  # our own page
    async with http(served(names["Greeter"]()).parts.app()) as client:
        asked = (await client.post("/", json=send())).json()["result"]["task"]
        assert asked["status"]["message"]["parts"] == [{"text": "What is your name?"}]
        answer = send("Ann", message_id="m-2", taskId=asked["id"])
        task = (await client.post("/", json=answer)).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "Hello, Ann!"}]
