"""Log of `aion dev` beside the logging that agents' code sets up."""

import subprocess
import sys
from pathlib import Path

import pytest


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
logging.basicConfig(level=logging.INFO, format='OWN %(message)s', force=True)
def sets_up(state):
    logging.config.dictConfig({
        "version": 1, "root": {"handlers": ["own"], "level": "INFO"}, "formatters": {"own": {"format": "OWN %(message)s"}},
        "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}}})
    logging.getLogger("mine").info("ready")
    return {"messages": [AIMessage("first")]}
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


@pytest.mark.deep
def test_server_logs_despite_logging_setup_in_agent(tmp_path: Path) -> None:
    """The agent sets up logging when its file is loaded, and again in a node."""
    (tmp_path / "node.py").write_text(NODE)
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
