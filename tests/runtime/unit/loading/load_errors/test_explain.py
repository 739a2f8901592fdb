"""Broken agents: each error names the cause, the place and the remedy on one screen."""

import asyncio
import gc
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from aion_core.bootstrap.stores import build_stores
from aion_core.clock import SystemClock
from aion_core.errors import AgentLoadError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.settings import Settings
from tests.support.isolated import isolated_imports

GRAPH = """from langgraph.graph import START, MessagesState, StateGraph
builder = StateGraph(MessagesState).add_node("node", lambda state: {}).add_edge(START, "node")
"""
ADK = """from google.adk.agents import BaseAgent
class Speaks(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield
"""
IN_ENV = (
    "Put {}=… into .env beside aion.yaml for this machine, and name its secret under `secrets` in aion.yaml for AWS."
)
ENDS = 'Code that ends the process, or runs a program, belongs below `if __name__ == "__main__":`.'


@dataclass
class BrokenModule:
    """Files of a broken agent, and the expected error; `{}` in `where` stands for the folder."""

    files: Mapping[str, str | bytes]
    what: str
    where: str
    do: str
    source: str = ""
    path: str = "agent.py"


def agent(
    code: str, what: str, where: str, do: str, source: str = "", path: str = "agent.py", **more: str
) -> BrokenModule:
    files = {"agent.py": code, **{f"{name}.py": text for name, text in more.items()}}
    return BrokenModule(files, what, where, do, source, path)


IMPORT = "agent.py cannot be imported: "
BROKEN = {
    "typo in the name": agent(
        GRAPH + "graph = builder.compile()\n",
        "agent.py:grpah: there is no 'grpah' in agent.py",
        "agent.py",
        "Did you mean 'graph'?",
        path="agent.py:grpah",
    ),
    "typo in the file's name": agent(
        GRAPH, "agnt.py does not exist", "{}/agnt.py", "Did you mean 'agent.py'? `path` is relative to", path="agnt.py"
    ),
    "missing module": agent(
        GRAPH,
        "there is no module nowhere.graph",
        "not in {}, and not installed",
        "Fix `path`: file.py:name, relative to aion.yaml's folder, or package.module:name.",
        path="nowhere.graph:graph",
    ),
    "missing package": agent(
        "import cowsay\n",
        IMPORT + "ModuleNotFoundError: No module named 'cowsay'",
        "agent.py, line 1",
        "Run `uv add cowsay`. The package's name may differ from the module's: look it up on pypi.org.",
        "import cowsay",
    ),
    "package that a library asks for": agent(
        "raise ImportError('Initializing ChatOpenAI requires it. Please install it with `pip install langchain-openai`')\n",
        IMPORT + "ImportError: Initializing ChatOpenAI",
        "agent.py, line 1",
        "Run `uv add langchain-openai`.",
        "raise ImportError",
    ),
    "typo in a neighbour's name": agent(
        "import tols\n",
        IMPORT + "ModuleNotFoundError: No module named 'tols'",
        "agent.py, line 1",
        "Did you mean 'tools'? If it is a third-party package, run `uv add tols`.",
        "import tols",
        tools="",
    ),
    "typo in an imported name": agent(
        "from tools_of_test import serch\n",
        IMPORT + "ImportError: cannot import name 'serch' from 'tools_of_test'",
        "agent.py, line 1",
        "Did you mean 'search'?",
        "from tools_of_test import serch",
        tools_of_test="def search(): ...",
    ),
    "executor for a2a-sdk 0.3": agent(
        "from a2a.types import TextPart\n",
        IMPORT + "ImportError: cannot import name 'TextPart' from 'a2a.types'",
        "agent.py, line 1",
        "Fix the name. If the code was written for a2a-sdk 0.2 or 0.3, change it as in docs/from-a2a-sdk.md#names-of-",
        "from a2a.types import TextPart",
    ),
    "two graphs": agent(
        GRAPH + "first = builder.compile()\nsecond = builder.compile(name='second')\n",
        "agent.py holds several agents: first, second",
        "agent.py, lines 3, 4",
        "Name one, as in agent.py:second.",
        "first = builder.compile()",
    ),
    "no graph": agent(
        "x = 1\n", "agent.py: there is no agent in agent.py", "agent.py", "Name it, as in agent.py:graph."
    ),
    "factory that raises": agent(
        "def make():\n    raise ValueError('no model')\n",
        "agent.py:make raised ValueError: no model",
        "agent.py, line 2",
        "Fix that line.",
        "raise ValueError('no model')",
        "agent.py:make",
    ),
    "factory with an argument of its own": agent(
        "def make(model):\n    return model\n",
        "agent.py:make requires an argument 'model'",
        "agent.py, line 1",
        "A factory takes no argument, or the run's config: `def make(config: RunnableConfig)`.",
        "def make(model):",
        "agent.py:make",
    ),
    "asyncio.run in an async factory": agent(
        "import asyncio\nasync def tools(): ...\nasync def make():\n    return asyncio.run(tools())\n",
        "agent.py:make raised RuntimeError: asyncio.run() cannot be called from a running event loop",
        "agent.py, line 4",
        "Await it in a node, or in an async factory: `async def make(): …`, without asyncio.run.",
        "return asyncio.run(tools())",
        "agent.py:make",
    ),
    "missing variable": agent(
        "import settings_of_test\n",
        IMPORT + "KeyError: 'MY_API_KEY'",
        "settings_of_test.py, line 2",
        IN_ENV.format("MY_API_KEY"),
        "KEY = os.environ['MY_API_KEY']",
        settings_of_test="import os\nKEY = os.environ['MY_API_KEY']\n",
    ),
    "missing setting": agent(
        "from pydantic_settings import BaseSettings\n"
        "class Settings(BaseSettings, env_prefix='TEST_'):\n    api_key: str\nsettings = Settings()\n",
        IMPORT + "ValidationError: api_key: Field required",
        "agent.py, line 4",
        IN_ENV.format("TEST_API_KEY"),
        "settings = Settings()",
    ),
    "missing setting with an alias": agent(
        "from pydantic import Field\nfrom pydantic_settings import BaseSettings\n"
        "class Settings(BaseSettings, env_prefix='TEST_'):\n    key: str = Field(alias='other_key')\nSettings()\n",
        IMPORT + "ValidationError: other_key: Field required",
        "agent.py, line 5",
        IN_ENV.format("OTHER_KEY"),
        "Settings()",
    ),
    "input at import": agent(
        "def main():\n    return input('Your name? ')\nname = main()\n",
        IMPORT + "EOFError: EOF when reading a line",
        "agent.py, line 2",
        "Remove input(): a server has no terminal.",
        "return input('Your name? ')",
    ),
    "missing API key of a model": agent(
        "class Client:\n    def __init__(self):\n        raise RuntimeError('The api_key client option must be set, or the "
        "ACME_API_KEY environment variable')\nmodel = Client()\n",
        IMPORT + "RuntimeError: The api_key client option must be set, or the ACME_API_KEY environment variable",
        "agent.py, line 3",
        IN_ENV.format("ACME_API_KEY"),
        "raise RuntimeError(",
    ),
    "syntax error": agent(
        "x = 1\ngraph = (\n",
        IMPORT + "SyntaxError: '(' was never closed",
        "agent.py, line 2",
        "Fix that line, or the line above it.",
        "graph = (",
    ),
    "indentation": agent(
        "x = 1\n  y = 2\n",
        IMPORT + "IndentationError: unexpected indent",
        "agent.py, line 2",
        "Fix the indentation of that line, or of the line above it.",
        "y = 2",
    ),
    "encoding": BrokenModule(
        {"agent.py": b"name = '\xe9'\n"}, IMPORT + "SyntaxError", "agent.py", "Save the file as UTF-8 text."
    ),
    "circular import": agent(
        "from queue_of_test import tool\ngraph = 1\n",
        IMPORT + "ImportError: cannot import name 'tool' from partially initialized module 'queue_of_test'",
        "other_of_test.py, line 1",
        "The two files import each other: import one of them inside the function that uses it.",
        "from queue_of_test import tool",
        queue_of_test="from other_of_test import other\ntool = 1\n",
        other_of_test="from queue_of_test import tool\nother = 1\n",
    ),
    "relative import beyond the top": BrokenModule(
        {"pkg_of_test/__init__.py": "", "pkg_of_test/agent.py": "from ..state import State\n"},
        "pkg_of_test/agent.py cannot be imported: ImportError: attempted relative import beyond top-level package",
        "pkg_of_test/agent.py, line 1",
        "Put an __init__.py into each folder of the package, or import by the full name: from package.module import x.",
        "from ..state import State",
        "pkg_of_test/agent.py",
    ),
    "folder whose name is no module's": BrokenModule(
        {
            "my-agent/__init__.py": "",
            "my-agent/agent.py": "from .state import State\n",
            "my-agent/state.py": "State = 1",
        },
        "my-agent/agent.py cannot be imported: ImportError: attempted relative import with no known parent package",
        "my-agent/agent.py, line 1",
        "Rename the folder 'my-agent': a package's name has letters, digits and underscores only.",
        "from .state import State",
        "my-agent/agent.py",
    ),
    "sys.exit": agent(
        "import sys\nsys.exit('bye')\n", IMPORT + "SystemExit: bye", "agent.py, line 2", ENDS, "sys.exit('bye')"
    ),
    "wrong type": agent(
        "graph = {'nodes': []}\n",
        "agent.py:graph is a dict, which is not an agent",
        "agent.py, line 1",
        "aion runs a LangGraph StateGraph, a compiled graph,",
        "graph = {'nodes': []}",
        "agent.py:graph",
    ),
    "app without an executor": agent(
        "from fastapi import FastAPI\napp = FastAPI()\n",
        "agent.py:app is a FastAPI, which is not an agent",
        "agent.py, line 2",
        "Its routes lead to no request handler of the a2a-sdk. Create the handler at the top level of the module, not "
        "in a function that runs later, such as `lifespan`, and name the handler or its executor in `path`.",
        "app = FastAPI()",
        "agent.py:app",
    ),
    "context manager that is called already": agent(
        "from contextlib import contextmanager\n@contextmanager\ndef make():\n    yield\ngraph = make()\n",
        "agent.py:graph is a _GeneratorContextManager, which is not an agent",
        "agent.py, line 5",
        "Name the function that makes it, not the result of one call: it is called for each turn.",
        "graph = make()",
        "agent.py:graph",
    ),
    "bad edge of a graph that is not compiled": agent(
        GRAPH + "graph = builder.add_edge('node', 'gone')\n",
        "agent.py:graph cannot be served: ValueError: Found edge ending at unknown node `gone`",
        "agent.py, line 3",
        "Fix the graph's nodes and edges.",
        "graph = builder.add_edge('node', 'gone')",
        "agent.py:graph",
    ),
    "checkpointer without async methods": agent(
        GRAPH + "from langgraph.checkpoint.base import BaseCheckpointSaver\nclass Own(BaseCheckpointSaver): ...\n"
        "graph = builder.compile(Own())\n",
        "agent.py:graph: the graph's own checkpointer, Own, has no async methods",
        "agent.py, line 5",
        "Compile the graph without it, or with its async version, such as AsyncOwn.",
        "graph = builder.compile(Own())",
        "agent.py:graph",
    ),
    "ADK folder without root_agent": BrokenModule(
        {"weather_of_test/__init__.py": "from . import agent\n", "weather_of_test/agent.py": "agent = None\n"},
        "weather_of_test: there is no root_agent in the folder weather_of_test",
        "weather_of_test/agent.py",
        "Define root_agent in weather_of_test/agent.py, or name what you mean",
        path="weather_of_test",
    ),
    "root_agent.yaml with a wrong key": BrokenModule(
        {"declared_of_test/root_agent.yaml": "nme: x\nmodel: gemini-flash-latest\ninstruction: Help.\n"},
        "declared_of_test: ADK cannot read it: ValidationError: name: Field required",
        "declared_of_test/root_agent.yaml",
        "Correct the file; ADK's page on Agent Config lists its keys.",
        path="declared_of_test",
    ),
    "name of a module of Python's own": agent(
        "from types import State\n",
        IMPORT + "ImportError: cannot import name 'State' from 'types'",
        "agent.py, line 1",
        "Rename types.py: Python has a module 'types' of its own, and only one of them can be imported.",
        "from types import State",
        types="State = 1\n",
    ),
    "file that hides a package": BrokenModule(
        {
            "agent.py": "from hidden_of_test.state import State\n",
            "hidden_of_test.py": "",
            "src/hidden_of_test/state.py": "State = 1\n",
        },
        IMPORT + "ModuleNotFoundError: No module named 'hidden_of_test.state'",
        "agent.py, line 1",
        "'hidden_of_test' is hidden_of_test.py, which hides the package of that name: rename one of them.",
        "from hidden_of_test.state import State",
    ),
    "file that is not there": agent(
        "PROMPT = open('prompt.txt').read()\n",
        IMPORT + "FileNotFoundError: [Errno 2] No such file or directory: 'prompt.txt'",
        "agent.py, line 1",
        "Name files relative to the code, not to where the server was started: Path(__file__).parent / ….",
        "PROMPT = open('prompt.txt').read()",
    ),
}


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    for name in ("MY_API_KEY", "ACME_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    # Replace stdin by a stream that is no terminal, because a server has no terminal either.
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    leaves_coroutine = "asyncio" in request.node.name
    if leaves_coroutine:
        gc.freeze()  # a collection of all objects of the other tests takes a second
    with isolated_imports(tmp_path):
        yield
    if leaves_coroutine:
        # Collect garbage now, so that the warning about the error's coroutine does not appear in a later test.
        gc.collect()


def written(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def made(folder: Path, path: str) -> LazyAgent:
    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    return LazyAgent("mine", AgentConfig(path=path), folder, stores.agents)


@pytest.mark.filterwarnings("ignore:coroutine 'tools' was never awaited:RuntimeWarning")
@pytest.mark.parametrize("case", BROKEN)
def test_broken_agents_error_fits_one_screen(case: str, tmp_path: Path) -> None:
    broken = BROKEN[case]
    written(tmp_path, broken.files)
    with pytest.raises(AgentLoadError) as failed:
        made(tmp_path, broken.path).load()
    error = failed.value
    assert error.what.startswith(broken.what)
    assert error.where.startswith(broken.where.format(tmp_path)) if broken.where else not error.where
    assert error.do.startswith(broken.do)
    assert error.source.startswith(broken.source)
    screen = error.screen().splitlines()
    assert screen[:2] == [f"Agent 'mine' ({broken.path}) cannot be loaded.", ""]
    assert len(screen) <= 6
    assert error.what in screen[2]
    assert error.do in screen[-1]
    assert str(error).startswith("Agent 'mine': ")
    assert "\n" not in str(error)


# ── Unusual agents without an error ───────────────────────────────────────────────────────────────────────────────────

SERVED = {
    "an import that prints": "print('hello')\n",
    "asyncio.run at import": "import asyncio\nasync def tools(): ...\nasyncio.run(tools())\n",
}


@pytest.mark.parametrize("case", SERVED)
async def test_agent_file_may_call_asyncio_run_at_import(case: str, tmp_path: Path) -> None:
    written(tmp_path, {"agent.py": f"{SERVED[case]}{GRAPH}graph = builder.compile()\n"})
    # Load the agent in a thread without an event loop, as a turn does.
    await asyncio.to_thread(made(tmp_path, "agent.py").load)


@pytest.mark.parametrize(("parameters", "is_per_turn"), [("config", True), ("", False)])
def test_parameters_of_factory_decide_whether_each_turn_calls_it(
    parameters: str, is_per_turn: bool, tmp_path: Path
) -> None:
    written(tmp_path, {"agent.py": f"{GRAPH}def make({parameters}):\n    return builder.compile()\n"})
    agent = made(tmp_path, "agent.py:make")
    agent.load()
    assert agent.is_per_turn is is_per_turn


@pytest.mark.filterwarnings("ignore:coroutine 'tools' was never awaited:RuntimeWarning")
async def test_error_explains_asyncio_run_inside_running_event_loop(tmp_path: Path) -> None:
    written(tmp_path, {"agent.py": SERVED["asyncio.run at import"]})
    with pytest.raises(AgentLoadError) as failed:
        made(tmp_path, "agent.py").load()
    assert failed.value.where == "agent.py, line 3"
    assert failed.value.do.startswith("Await it in a node")


@pytest.mark.parametrize("name", ["types.py", "email.py", "my-agent.py"])
def test_agent_file_named_like_a_module_loads(name: str, tmp_path: Path) -> None:
    written(tmp_path, {name: f"{GRAPH}graph = builder.compile()\n"})
    made(tmp_path, name).load()


def test_repaired_agent_loads_without_restart(tmp_path: Path) -> None:
    agent = made(tmp_path, "agent.py")
    written(tmp_path, {"agent.py": "import cowsay\n"})
    with pytest.raises(AgentLoadError) as failed:
        agent.load()
    assert isinstance(failed.value.__cause__, ModuleNotFoundError)
    written(tmp_path, {"agent.py": f"{GRAPH}graph = builder.compile()\n"})
    agent.load()
