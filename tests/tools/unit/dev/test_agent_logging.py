"""Log of `aion dev` beside the logging that agents' code sets up."""

import subprocess
import sys
from pathlib import Path

import pytest

LOGGING = {
    "dictConfig": """logging.config.dictConfig({
        "version": 1, "root": {"handlers": ["own"], "level": "INFO"}, "formatters": {"own": {"format": "OWN %(message)s"}},
        "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}}})""",
    "basicConfig": "logging.basicConfig(level=logging.INFO, format='OWN %(message)s', force=True)",
}

LOGS = """
import logging, pathlib
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.bootstrap.stores import build_stores
from aion_core.clock import SystemClock
from aion_tools.dev import console_log
from aion_core.settings import Settings
stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
console_log.install(colour=False)
logger = logging.getLogger("aion_core.engine.runner.metrics")
for name in ("one", "two"):
    LazyAgent(name, AgentConfig(path=f"{name}.py"), pathlib.Path(), stores.agents).load()
logger.info("A turn has ended.", extra={"state": "completed", "duration_ms": 12})
logging.getLogger("mine").info("ready")
"""


@pytest.mark.parametrize("setup", [pytest.param("dictConfig", marks=pytest.mark.deep), "basicConfig"])
def test_server_logs_despite_logging_setup_in_agent_file(setup: str, tmp_path: Path) -> None:
    source = f"""import logging.config
from a2a.server.agent_execution import AgentExecutor
{LOGGING[setup]}
class Mine(AgentExecutor):
    async def execute(self, context, queue): ...
    async def cancel(self, context, queue): ...
agent = Mine()
"""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(source)
    run = subprocess.run([sys.executable, "-c", LOGS], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = run.stderr.splitlines()
    assert [line[len("00:00:00  ") :] for line in lines if "turn" in line] == ["turn completed 12 ms"]
    assert [line for line in lines if "ready" in line] == ["OWN ready"]


def test_factory_that_configures_logging_does_not_silence_server_log(tmp_path: Path) -> None:
    script = (
        "import asyncio, logging, logging.config\n"
        "from aion_core.loading.objects.per_turn import PerTurnFactory\nfrom aion_tools.dev import console_log\n"
        "console_log.install(colour=False)\nlogger = logging.getLogger('aion_core.engine.runner.metrics')\n"
        "async def turn():\n"
        "    async with PerTurnFactory(lambda config: logging.config.dictConfig({'version': 1}), 'config').made({}): ...\n"
        "for _ in range(2): asyncio.run(turn())\n"
        "logger.info('A turn has ended.')\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line[len("00:00:00  ") :] for line in run.stderr.splitlines()] == ["A turn has ended."]


NODE = """
import logging, logging.config
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
def sets_up(state):
    {setup}
    logging.getLogger("mine").info("ready")
    return {{"messages": [AIMessage("first")]}}
def fails(state):
    raise ValueError("the tide is out")
graph = StateGraph(MessagesState).add_node(sets_up).add_node(fails).add_edge(START, "sets_up").add_edge("sets_up", "fails")
"""

SERVED = """
import asyncio
from aion_tools.dev import console_log
from aion_tools.testing import serve
async def main():
    async with serve("aion.yaml") as client:
        for _ in range(2):
            await client.ask("hello")
console_log.install(colour=False)
asyncio.run(main())
"""


@pytest.mark.parametrize("setup", ["dictConfig", pytest.param("basicConfig", marks=pytest.mark.deep)])
def test_server_logs_despite_logging_setup_in_node(setup: str, tmp_path: Path) -> None:
    (tmp_path / "node.py").write_text(NODE.format(setup=LOGGING[setup]))
    (tmp_path / "aion.yaml").write_text("aion: {agents: {node: {path: 'node.py:graph'}}}")
    run = subprocess.run([sys.executable, "-c", SERVED], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line[len("00:00:00  ") :].partition(".")[0] for line in run.stderr.splitlines() if line[2:3] == ":"]
    assert [line for line in lines if "agent failed" in line] == ["ERROR The agent failed"] * 2
    assert len([line for line in lines if "turn failed" in line]) == 2
    assert "OWN ready" in run.stderr.splitlines()


def test_console_log_omits_info_lines_of_libraries(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import logging\nlogging.getLogger(__name__).info('ready')\n")
    script = (
        "import logging; from aion_tools.dev import console_log; console_log.install(colour=False); import mine, httpx\n"
        "record = logging.LogRecord('lib', logging.INFO, httpx.__file__, 1, 'verbose', (), None)\n"
        "logging.getLogger('lib').handle(record)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line[len("00:00:00  ") :] for line in run.stderr.splitlines()] == ["ready (mine)"]
