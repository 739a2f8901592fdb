"""Answers to the questions of an agent whose code cannot be loaded after a deployment."""

import itertools
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.bootstrap import build_app
from aion_core.bootstrap.stores import build_stores
from aion_core.clock import SystemClock
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.records import Turn
from aion_core.errors import AgentLoadError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.protocol.types import Message, Part, Role, Task, TaskState, TaskStatus
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey
from tests.support.isolated import isolated_imports
from tests.support.rows import each_row
from tests.support.service import http

AION_YAML = """
aion:
  agents:
    sound: {path: sound.py:graph}
    asks: {path: asks.py:agent}
"""

SOUND = """
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("reply", lambda state: {"messages": ["hello"]}).add_edge(START, "reply").compile()
"""

GRAPH = """
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

def ask(state):
    colour, size = interrupt("Which colour?"), "large"
    return {"messages": [("ai", f"{colour} and {size}")]}

agent = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
"""

EXECUTOR = """
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

class Asks(AgentExecutor):
    async def execute(self, context, queue):
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        if context.current_task is None:
            await updater.submit()
            await updater.requires_input(new_text_message("Which colour?"))
        else:
            await updater.complete(new_text_message(f"{context.get_user_input()} and large"))

    async def cancel(self, context, queue):
        raise NotImplementedError

agent = Asks()
"""

BROKEN = "import a_module_that_the_package_lacks\n"

NOT_LOADED = "The agent cannot be loaded at present, so your answer was not used."

numbers = itertools.count(1)


def app_of(folder: Path) -> Any:
    """Return the app of the next deployment of the project in this folder."""
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder), "AION_AUTH": "off"}
    return build_app(Settings.from_environ({**environ, "AION_CONFIG": str(folder / "aion.yaml")}))


async def send(client: httpx.AsyncClient, text: str, task: Any = None) -> Any:
    """Send a text to the agent that asks, as an answer if the task is given; return the task."""
    ids = {"taskId": task["id"], "contextId": task["contextId"]} if task else {}
    message = {"messageId": f"m-{next(numbers)}", "role": "ROLE_USER", "parts": [{"text": text}], **ids}
    response = await client.post("http://127.0.0.1/agents/asks/message:send", json={"message": message})
    assert response.status_code == 200, response.text
    return response.json()["task"]


def texts(task: Any) -> list[str]:
    return [part["text"] for part in task["status"]["message"]["parts"]]


def metadata(task: Any) -> Any:
    """Return the metadata of the question, which names its interrupt."""
    return task["status"]["message"].get("metadata", {})


@pytest.mark.parametrize("source", [GRAPH, EXECUTOR], ids=["graph", "executor"])
async def test_question_waits_on_if_agent_cannot_be_loaded(
    tmp_path: Path, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "aion.yaml").write_text(AION_YAML)
    (tmp_path / "sound.py").write_text(SOUND)
    (tmp_path / "asks.py").write_text(source)
    with isolated_imports(tmp_path):
        async with http(app_of(tmp_path)) as client:
            asked = await send(client, "hi")
            assert texts(asked) == ["Which colour?"]
    (tmp_path / "asks.py").write_text(BROKEN)
    with isolated_imports(tmp_path):
        async with http(app_of(tmp_path)) as client:
            for _ in range(2):
                again = await send(client, "red", asked)
                assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
                reason, question = texts(again)
                assert reason.startswith(NOT_LOADED)
                assert question == "Which colour?"
                assert metadata(again) == metadata(asked)
            assert "a_module_that_the_package_lacks" in caplog.text
            new = await send(client, "hi")
            assert new["status"]["state"] == "TASK_STATE_FAILED", "a new task has no question to go back to"
    (tmp_path / "asks.py").write_text(source)
    with isolated_imports(tmp_path):
        async with http(app_of(tmp_path)) as client:
            done = await send(client, "blue", again)
            assert (done["status"]["state"], texts(done)) == ("TASK_STATE_COMPLETED", ["blue and large"])


QUESTION = Message(
    message_id="q-1",
    role=Role.ROLE_AGENT,
    parts=[Part(text="Which colour?")],
    extensions=["https://example.com/colours"],
)


def turn_of_answer(tries: int = 1, handoffs: int = 0) -> TurnRequest:
    """Return the input of a turn with the answer to QUESTION, with these numbers of tries and suspensions."""
    answer = Message(message_id="m-2", role=Role.ROLE_USER, parts=[Part(text="red")])
    before = Task(id="t-1", status=TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=QUESTION))
    turn = Turn("turn-2", "t-1", 4, tries=tries, handoffs=handoffs)
    return TurnRequest(ContextKey("owner", "asks", "c-1"), turn, 2, Task(id="t-1"), answer, before=lambda: before)


def broken_agent(folder: Path, source: str = BROKEN) -> LazyAgent:
    (folder / "asks.py").write_text(source)
    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    return LazyAgent("asks", AgentConfig(path="asks.py:agent"), folder, stores.agents)


async def test_repeated_question_is_new_message_with_its_extensions(tmp_path: Path) -> None:
    with isolated_imports(tmp_path):
        [emission] = [each async for each in broken_agent(tmp_path).run(turn_of_answer())]
    assert isinstance(emission, InputRequired)
    assert list(emission.message.extensions) == ["https://example.com/colours"]
    assert emission.message.message_id == ""


@pytest.mark.parametrize(("tries", "handoffs"), [(1, 1), (2, 0)], ids=["suspended", "process died"])
async def test_resumed_turn_fails_because_its_answer_was_used(tmp_path: Path, tries: int, handoffs: int) -> None:
    """The agent may have stored steps after the answer, and could not use another answer to this question then."""
    with isolated_imports(tmp_path), pytest.raises(AgentLoadError):
        [each async for each in broken_agent(tmp_path).run(turn_of_answer(tries, handoffs))]


PANIC = "class PanicException(BaseException): ...\n"
"""Class of a panic of a library in Rust. It is no subclass of Exception."""
RAISING = {
    "at import": "{}raise {}\n",
    "by the agent's function": "{}def agent():\n    raise {}\n",
}


@each_row("raised", ["PanicException", "asyncio.CancelledError", "KeyboardInterrupt", "SystemExit"])
@each_row("source", RAISING.values())
async def test_any_exception_of_agents_code_repeats_question(tmp_path: Path, source: str, raised: str) -> None:
    """A KeyboardInterrupt would end the event loop, and the server with all its agents."""
    agent = broken_agent(tmp_path, source.format(f"import asyncio\n{PANIC}", raised))
    with isolated_imports(tmp_path):
        [emission] = [each async for each in agent.run(turn_of_answer())]
    assert isinstance(emission, InputRequired)
    assert emission.message.parts[0].text.startswith(NOT_LOADED)


def test_ctrl_c_during_import_ends_command(tmp_path: Path) -> None:
    """Python raises it in the main thread, where the commands load the agents."""
    with isolated_imports(tmp_path), pytest.raises(KeyboardInterrupt):
        broken_agent(tmp_path, "raise KeyboardInterrupt").load()
