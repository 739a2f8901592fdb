"""Node that blocks its event loop past the deadline of its invocation: the client gets its task, or a stream to resume."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import Stack
from tests.support.e2e.runtime_process import RuntimeProcess, running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.service import send

AGENT = """
import time
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

async def works(state):
    time.sleep(float(state["messages"][-1].text))
    print("no longer blocked", flush=True)
    return {"messages": [AIMessage("Done.")]}

graph = StateGraph(MessagesState).add_node(works).add_edge(START, "works").compile()
"""


@pytest.fixture
async def api() -> AsyncIterator[FakeRuntimeApi]:
    async with FakeRuntimeApi() as api:
        yield api


@pytest.fixture
async def runtime(api: FakeRuntimeApi, tmp_path: Path, stack: Stack) -> AsyncIterator[RuntimeProcess]:
    (tmp_path / "agent.py").write_text(AGENT)
    config = tmp_path / "aion.yaml"
    config.write_text("aion:\n  agents:\n    test: {path: agent.py}\n")
    environ = {
        **stack.environment("ApiFunction"),
        "AION_CONFIG": str(config),
        "AION_AUTH": "off",
        "AION_HTTP_ENTRYPOINTS": "",
        "AION_BASE_URL": "http://127.0.0.1",
    }
    async with running("handlers.api:app", api=api.address, environ=environ) as runtime:
        yield runtime


def event_of(path: str, body: Any) -> dict[str, Any]:
    event = function_url_event(path, method="POST", body=json.dumps(body))
    event["headers"] |= {"content-type": "application/json", "host": "127.0.0.1"}
    return event


@pytest.mark.deep
@pytest.mark.parametrize("binding", ["SendMessage", "/v1/message:send"])
async def test_client_gets_working_task_before_deadline(
    api: FakeRuntimeApi, runtime: RuntimeProcess, binding: str
) -> None:
    is_rest, old = binding.startswith("/"), "v1/" in binding or "message/" in binding
    body = send("12", method="message/send" if old else "SendMessage")
    invocation = api.invoke(event_of(binding if is_rest else "/", body["params"] if is_rest else body), deadline_in=10)
    answer = await invocation.answered()
    assert "no longer blocked" not in runtime.log
    assert answer.status == 200
    result = json.loads(answer.body)
    result = result if is_rest else result["result"]
    task = result.get("task", result)
    assert task["status"]["state"] in ("TASK_STATE_WORKING", "working")
    assert await runtime.logged("blocks the event loop")


async def test_stream_ends_cleanly_and_can_be_resumed(api: FakeRuntimeApi, runtime: RuntimeProcess) -> None:
    invocation = api.invoke(event_of("/", send("12", method="SendStreamingMessage")), deadline_in=10)
    answer = await invocation.answered()
    assert "no longer blocked" not in runtime.log
    assert answer.trailers == {}
    events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    task_id = events[0]["result"]["task"]["id"]
    get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    task = json.loads((await api.invoke(event_of("/", get), deadline_in=60).answered()).body)["result"]
    assert task["id"] == task_id
