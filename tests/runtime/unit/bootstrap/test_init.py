"""Loading of agents by ApiFunction and TaskFunction in Lambda's init phase."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from uuid_utils import reseed_rng

from aion_core.bootstrap import build_app
from aion_core.errors import AgentLoadError
from aion_core.settings import Settings
from tests.support.deployment import IN_MEMORY

ROOT = Path(__file__).parents[4]
ON_LAMBDA = {
    **IN_MEMORY,
    "AION_AUTH": "on",
    "AION_HTTP_ENTRYPOINTS": "AWS_IAM,OFF",
}
AGENT = 'aion:\n  agents:\n    echo: {path: "agent.py:graph"}\n'
GRAPH = """
from langgraph.graph import MessagesState, StateGraph

def answer(state):
    return {"messages": [("ai", "hello")]}

graph = StateGraph(MessagesState).add_node(answer).set_entry_point("answer").set_finish_point("answer")
"""
WAIT = """
def wait_until_loaded():
    # On a slow machine, the import that the startup has begun takes longer than the init phase.
    for thread in threading.enumerate():
        if thread.name == "agents":
            thread.join()

"""
API = f"""{WAIT}
import asyncio, json, sys, threading
from aion_core.bootstrap import build_app
from aion_core.settings import Settings

async def main():
    app = build_app(Settings.from_environ())
    before = set(sys.modules)
    async with app.router.lifespan_context(app):
        wait_until_loaded()
        print(json.dumps([sorted(set(sys.modules) - before)]))

asyncio.run(main())
"""
TASK = f"""{WAIT}
import json, sys, threading
from aion_core.bootstrap import build_worker

before = set(sys.modules)
build_worker()
wait_until_loaded()
print(json.dumps([sorted(set(sys.modules) - before)]))
"""


def on_lambda(folder: Path, graph: str) -> dict[str, str]:
    """Write a project with this agent, and return the environment variables of its function on Lambda."""
    (folder / "agent.py").write_text(graph)
    (folder / "aion.yaml").write_text(AGENT)
    return {**ON_LAMBDA, "AION_CONFIG": str(folder / "aion.yaml")}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("program", "start", "modules"),
    [
        (API, "snap-start", {"langgraph.graph.state", "a2a.compat.v0_3.types"}),
        (API, "on-demand", {"langgraph.graph.state"}),
        (TASK, "on-demand", {"langgraph.graph.state"}),
    ],
    ids=["api with SnapStart", "api", "task"],
)
def test_startup_on_lambda_imports_framework_of_agent(
    tmp_path: Path, program: str, start: str, modules: set[str]
) -> None:
    """Test it in a new process, because the test process has already imported the frameworks."""
    environ = {**os.environ, **on_lambda(tmp_path, GRAPH), "AWS_LAMBDA_INITIALIZATION_TYPE": start}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, check=True, capture_output=True)
    (imported,) = json.loads(done.stdout.splitlines()[-1])
    assert modules <= set(imported)


@pytest.mark.parametrize(
    ("code", "reason"), [("import no_such_module", "no_such_module"), ("raise SystemExit(3)", "SystemExit|exit")]
)
async def test_startup_on_lambda_fails_without_loadable_agent(tmp_path: Path, code: str, reason: str) -> None:
    app = build_app(Settings.from_environ(on_lambda(tmp_path, code)))
    with pytest.raises(AgentLoadError, match=reason):
        async with app.router.lifespan_context(app):
            pass


async def test_snapstart_app_registers_functions_to_run_after_restore(tmp_path: Path) -> None:
    environ = {**on_lambda(tmp_path, GRAPH), "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}
    app = build_app(Settings.from_environ(environ))
    async with app.router.lifespan_context(app) as state:
        assert state is not None
        reseed, refresh = state["aion.after_restore"]
        assert reseed is reseed_rng
        assert refresh.__qualname__ == "AgentEnvironment.refresh"
