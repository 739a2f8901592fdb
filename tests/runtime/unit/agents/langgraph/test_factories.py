"""Graph factories: called once or for each turn, with the turn's config, and closed at every end of the turn."""

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.resumption import TOO_MANY_STEPS
from aion_core.bootstrap import build_app
from aion_core.engine.agent import Paused, Reply, TurnRequest
from aion_core.engine.records import Turn
from aion_core.errors import ConfigurationError
from aion_core.loading.objects.per_turn import PerTurnFactory
from aion_core.protocol.types import Message, Part, Role, Task
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey
from tests.support.rows import each_row
from tests.support.service import http, parts, send

CODE = """
import asyncio
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

LOG = Path(__file__).with_name("log.txt")


def log(line):
    with LOG.open("a") as file:
        file.write(f"{line}\\n")


def built(says, asks=False, fails=False):
    async def node(state, config: RunnableConfig):
        log("node")
        if fails:
            raise ValueError("the node failed")
        day = interrupt("Which day?") if asks else ""
        own = config["configurable"]
        return {"messages": [AIMessage(f"{says}{day} {own.get('language')} {len(own['thread_id'])} {len(state['messages'])}")]}

    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


def said_of(config):
    log("made")
    own = config["configurable"]
    return f"{own['language']} {len(own['thread_id'])} |"

"""
FACTORIES = {
    "config": "def graph(config): return built(said_of(config))",
    "config by its annotation": "def graph(settings: RunnableConfig): return built(said_of(settings))",
    "config, async": "async def graph(config: RunnableConfig): return built(said_of(config))",
    "config that may be left out": "def graph(config: RunnableConfig | None = None): return built(said_of(config))",
    "async context manager": (
        "@asynccontextmanager\nasync def graph(config: RunnableConfig):\n    loop = asyncio.get_running_loop()\n"
        "    task = asyncio.current_task()\n"
        "    try:\n        yield built(said_of(config))\n"
        "    finally:\n        assert (loop, task) == (asyncio.get_running_loop(), asyncio.current_task())\n"
        "        log('left')\n"
    ),
    "context manager": (
        "@contextmanager\ndef graph(config):\n    try:\n        yield built(said_of(config))\n    finally:\n"
        "        log('left')\n"
    ),
    "async generator": "async def graph(config):\n    yield built(said_of(config))\n    log('left')\n",
    "generator": "def graph(config):\n    yield built(said_of(config))\n    log('left')\n",
}
THREAD_ID_LENGTH = 64


def app_of(folder: Path, code: str, configuration: str = "{language: fr}", path: str = "agent.py:graph") -> Any:
    (folder / "agent.py").write_text(CODE + code)
    agents = f"{{mine: {{path: '{path}', configuration: {configuration}}}}}"
    (folder / "aion.yaml").write_text(f"aion: {{agents: {agents}}}\n")
    return build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml")}))


async def ask(client: httpx.AsyncClient, text: str, number: int = 1, **message: Any) -> dict[str, Any]:
    answer = (await client.post("/", json=send(text, message_id=f"m-{number}", **message))).json()
    task: dict[str, Any] = answer["result"]["task"]
    return task


def said(task: dict[str, Any]) -> str:
    return str(task["status"]["message"]["parts"][0]["text"])


def log_of(folder: Path) -> list[str]:
    file = folder / "log.txt"
    return file.read_text().split() if file.exists() else []


@each_row("kind", FACTORIES)
async def test_graph_factory_receives_config_of_each_turn(kind: str, tmp_path: Path) -> None:
    async with http(app_of(tmp_path, FACTORIES[kind])) as client:
        first = await ask(client, "hi")
        second = await ask(client, "again", 2, contextId=first["contextId"])
    assert said(first) == f"fr {THREAD_ID_LENGTH} | fr {THREAD_ID_LENGTH} 1"
    assert said(second) == f"fr {THREAD_ID_LENGTH} | fr {THREAD_ID_LENGTH} 3"
    left = ["left"] if "left" in FACTORIES[kind] else []
    assert log_of(tmp_path) == ["made", "node", *left] * 2


@pytest.mark.parametrize("prefix", ["", "async "])
async def test_graph_factory_without_arguments_is_called_once(prefix: str, tmp_path: Path) -> None:
    async with http(app_of(tmp_path, f"{prefix}def graph():\n    log('made')\n    return built('x')")) as client:
        first = await ask(client, "hi")
        await ask(client, "again", 2, contextId=first["contextId"])
    assert log_of(tmp_path) == ["made", "node", "node"]


async def test_function_returning_context_manager_is_graph_factory(tmp_path: Path) -> None:
    code = (
        "@asynccontextmanager\nasync def opened():\n    yield built('x')\n    log('left')\n"
        "async def graph():\n    return opened()\n"
    )
    async with http(app_of(tmp_path, code)) as client:
        assert said(await ask(client, "hi")) == f"x fr {THREAD_ID_LENGTH} 1"
    assert log_of(tmp_path) == ["node", "left"]


async def test_context_manager_of_graph_factory_exits_on_interrupt(tmp_path: Path) -> None:
    code = FACTORIES["context manager"].replace("built(said_of(config))", "built(said_of(config), asks=True)")
    async with http(app_of(tmp_path, code)) as client:
        asked = await ask(client, "book")
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert log_of(tmp_path) == ["made", "node", "left"]
        answered = await ask(client, "Monday", 2, taskId=asked["id"])
    assert said(answered) == f"fr {THREAD_ID_LENGTH} |Monday fr {THREAD_ID_LENGTH} 1"
    assert log_of(tmp_path) == ["made", "node", "left"] * 2


@pytest.mark.parametrize("kind", ["async context manager", "context manager"])
async def test_context_manager_of_graph_factory_exits_after_failed_turn(kind: str, tmp_path: Path) -> None:
    code = FACTORIES[kind].replace("built(said_of(config))", "built(said_of(config), fails=True)")
    async with http(app_of(tmp_path, code)) as client:
        task = await ask(client, "hi")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert said(task) == "ValueError: the agent could not finish this turn."
    assert log_of(tmp_path) == ["made", "node", "left"]


async def test_turn_fails_even_if_graph_context_manager_suppresses_error(tmp_path: Path) -> None:
    code = (
        "from contextlib import suppress\n@asynccontextmanager\nasync def graph(config):\n"
        "    with suppress(ValueError):\n        yield built('x', fails=True)\n"
    )
    async with http(app_of(tmp_path, code)) as client:
        task = await ask(client, "hi")
    assert task["status"]["state"] == "TASK_STATE_FAILED"


@each_row(
    ("code", "said_of_it"),
    [
        ("def graph(config):\n    raise LookupError('no tools')", "LookupError"),
        ("async def graph(config):\n    return 7", "ConfigurationError"),
        ("@asynccontextmanager\nasync def graph(config):\n    raise LookupError('x')\n    yield", "LookupError"),
        ("def graph(config):\n    raise SystemExit(3)", "The agent tried to end its process."),
    ],
)
async def test_failing_graph_factory_fails_its_turn(code: str, said_of_it: str, tmp_path: Path) -> None:
    async with http(app_of(tmp_path, code)) as client:
        task = await ask(client, "hi")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert said(task).startswith(said_of_it)


# ── `configuration` in the config ─────────────────────────────────────────────────────────────────────────────────────


SERVER_KEYS = {"thread_id": "mine", "checkpoint_id": "c", "checkpoint_ns": "n", "__pregel_x": 1, "language": "de"}


async def test_agent_configuration_cannot_override_config_keys_of_server(tmp_path: Path) -> None:
    async with http(app_of(tmp_path, "graph = built('x')", json.dumps(SERVER_KEYS))) as client:
        first = await ask(client, "hi")
        again = await ask(client, "again", 2, contextId=first["contextId"])
    assert said(first) == f"x de {THREAD_ID_LENGTH} 1"
    assert said(again) == f"x de {THREAD_ID_LENGTH} 3"


async def test_agent_configuration_reaches_runtime_context_and_config(tmp_path: Path) -> None:
    code = (
        "from dataclasses import dataclass\nfrom langgraph.runtime import Runtime\n"
        "@dataclass\nclass Ctx:\n    language: str\n"
        "def node(state, runtime: Runtime[Ctx], config: RunnableConfig):\n"
        "    return {'messages': [AIMessage(runtime.context.language + config['configurable']['language'])]}\n"
        "graph = StateGraph(MessagesState, context_schema=Ctx).add_node('node', node).add_edge(START, 'node')\n"
    )
    async with http(app_of(tmp_path, code)) as client:
        assert said(await ask(client, "hi")) == "frfr"


async def test_agent_configuration_is_not_shared_between_turns(tmp_path: Path) -> None:
    code = (
        "def node(state, config: RunnableConfig):\n    tags = config['configurable']['tags']\n    tags.append('x')\n"
        "    return {'messages': [AIMessage(str(tags))]}\n"
        "graph = StateGraph(MessagesState).add_node('node', node).add_edge(START, 'node')\n"
    )
    async with http(app_of(tmp_path, code, "{tags: [a]}")) as client:
        for number in (1, 2):
            assert said(await ask(client, "hi", number)) == "['a', 'x']"


# ── Handoff, cancel and redeployment of a per-turn graph ──────────────────────────────────────────────────────────────


def row(saver: Any, *names: str, then: Callable[[], Any] | None = None) -> Any:
    builder: Any = StateGraph(MessagesState)
    before = START
    for name in names:

        def node(state: Any, name: str = name) -> Any:
            if then is not None and name == names[0]:
                then()
            return {"messages": [AIMessage(name)]}

        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(saver)


def per_turn(graph: Any, log: list[str]) -> PerTurnFactory:
    @asynccontextmanager
    async def make(config: Any) -> Any:
        log.append("entered")
        try:
            yield graph
        finally:
            log.append("left")

    return PerTurnFactory(make, "config")


def asked_of(drain: asyncio.Event | None = None, handoffs: int = 0) -> TurnRequest:
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hi")])
    task = Task(id="t-1", context_id="c", history=[message])
    return TurnRequest(
        ContextKey("owner", "agent", "c"),
        Turn("turn-1", "t-1", 1, handoffs=handoffs),
        1,
        task,
        message,
        drain=drain or asyncio.Event(),
    )


async def last(agent: LangGraphAgent, asked: TurnRequest) -> Any:
    return [emission async for emission in agent.run(asked)][-1]


async def test_turn_of_graph_from_factory_continues_in_next_invocation() -> None:
    saver, log, drain = InMemorySaver(), list[str](), asyncio.Event()
    first = LangGraphAgent(per_turn(row(saver, "a", "b", then=drain.set), log))
    assert isinstance(await last(first, asked_of(drain)), Paused)
    assert log == ["entered", "left"]
    ran: list[str] = []
    second = LangGraphAgent(per_turn(row(saver, "a", "b", then=lambda: ran.append("a")), log))
    answer = await last(second, asked_of(handoffs=1))
    assert isinstance(answer, Reply)
    assert answer.message is not None
    assert answer.message.parts[0].text == "b"
    assert ran == []
    assert log == ["entered", "left"] * 2


async def test_error_names_wrong_type_returned_by_graph_factory() -> None:
    agent = LangGraphAgent(PerTurnFactory(lambda: 7, None))
    with pytest.raises(ConfigurationError, match="The graph factory returned a int"):
        await last(agent, asked_of())


@pytest.mark.parametrize("is_per_turn", [False, True])
async def test_configured_recursion_limit_overrides_recursion_limit_of_graph(is_per_turn: bool) -> None:
    runs: list[str] = []

    def again(state: MessagesState) -> Command[Literal["again"]]:
        runs.append("again")
        return Command(goto="again")

    builder = StateGraph(MessagesState).add_node("again", again).add_edge(START, "again")
    graph = builder.compile().with_config(recursion_limit=50)
    agent = LangGraphAgent(per_turn(graph, []) if is_per_turn else graph, recursion_limit=4)
    async with http(parts(agent).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"] == [{"text": TOO_MANY_STEPS}]
    assert len(runs) == 4
