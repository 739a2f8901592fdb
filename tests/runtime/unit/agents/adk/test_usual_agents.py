"""Answers of the ADK agents and executors of `docs/agents.md`, in both protocol versions, streamed and stored."""

from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.clock import SystemClock
from aion_core.engine.agent_options import ReplyAs
from tests.runtime.unit.agents.adk import usual_agents
from tests.runtime.unit.agents.executor import usual_executors
from tests.runtime.unit.agents.usual_agents import Case, agents_named_in, both_versions, check_turns
from tests.support.adk import served
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*EXPERIMENTAL:UserWarning")

CASES = {**usual_agents.CASES, **usual_executors.CASES}
PAGE = Path(__file__).parents[5] / "docs" / "agents.md"


def app_of(case: Case) -> Any:
    agent = case.agent()
    if isinstance(agent, AgentExecutor):
        store = MemoryTaskStore(SystemClock())
        return parts(ExecutorAgent(agent, store), store, reply=ReplyAs.AGENT).app()
    return parts(served(agent)).app()


@both_versions
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_documented_adk_agents_answer(case: Case, version: str) -> None:
    await check_turns(app_of(case), case, version)


def test_documentation_page_lists_each_tested_adk_agent() -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## ADK agents")
    assert agents_named_in(section) == CASES.keys()
