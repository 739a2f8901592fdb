"""Answers of the LangGraph agents of `docs/agents.md`, in both protocol versions, streamed and stored."""

from pathlib import Path

import pytest

from tests.runtime.unit.agents.langgraph import usual_graphs as _adds_its_cases  # noqa: F401
from tests.runtime.unit.agents.langgraph.usual_agents import CASES
from tests.runtime.unit.agents.usual_agents import Case, agents_named_in, both_versions, check_turns
from tests.support.service import parts

PAGE = Path(__file__).parents[5] / "docs" / "agents.md"


@both_versions
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_documented_langgraph_agents_answer(case: Case, version: str) -> None:
    await check_turns(parts(case.agent()).app(), case, version)


def test_agents_page_of_documentation_lists_each_tested_langgraph_agent() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## LangGraph agents")[2].partition("\n## ")[0]
    assert agents_named_in(section) == set(CASES)
