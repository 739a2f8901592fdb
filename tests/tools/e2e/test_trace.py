"""Trace of a turn in `aion dev`: in `aion why`, and in the log with -v."""

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.e2e import forked
from tests.support.server import TIMEOUT, aion_dev, serving
from tests.support.service import send

KEY = "sk-" + "a1B2" * 12

REACT = f"""\
from langchain.agents import create_agent
from langchain_core.tools import tool

from aion.langgraph.scripted import ScriptedChatModel


@tool
def convert(text: str) -> str:
    '''Convert an amount.'''
    if text == "fail":
        raise ValueError("no rate")
    return "about 7 EUR with {KEY}"


agent = create_agent(ScriptedChatModel(answer="Done."), [convert])
"""


ADK = """\
from google.adk.agents import LlmAgent, SequentialAgent

from aion.adk.scripted import ScriptedLlm


def convert(amount: str) -> str:
    '''Convert an amount.'''
    return f"about {amount} EUR"


asks = LlmAgent(name="asks", model=ScriptedLlm(), tools=[convert])
root_agent = SequentialAgent(name="root", sub_agents=[asks, LlmAgent(name="thanks", model=ScriptedLlm(answer="Bye."))])
"""


def told(url: str, text: str, data: Path) -> tuple[list[str], dict[str, Any]]:
    """Send the text; return the lines of `aion why` about its task without their times, and its JSON document."""
    answer = httpx.post(url, json=send(text, message_id=text), headers={"a2a-version": "1.0"}, timeout=TIMEOUT).json()
    task_id = answer["result"]["task"]["id"]
    environ = {**os.environ, "AION_DATA_DIR": str(data)}
    printed, document = (
        forked.run("aion_tools.cli", "why", task_id, *more, env=environ).stdout for more in ([], ["--json"])
    )
    return [line[25:] for line in printed.splitlines()], json.loads(document)[0]


def without_times(lines: list[str]) -> list[str]:
    return [re.sub(r"\d[\d.]* (ms|s|min)\b", "T", line) for line in lines]


def steps_of(lines: list[str]) -> list[str]:
    """Return the lines between the beginning of the turn and its end, without their durations."""
    begun, ended = (
        next(n for n, line in enumerate(lines) if part in line) for part in ("began the turn", "completed the task")
    )
    # ADK warns in the log that the scripted model counts no tokens.
    return without_times([line for line in lines[begun + 1 : ended] if line.startswith("  ")])


def test_why_and_verbose_log_show_steps_of_react_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(REACT)
    data = tmp_path / "data"
    with serving(aion_dev(str(tmp_path / "agent.py"), "--no-reload", "-v"), AION_DATA_DIR=str(data)) as server:
        lines, document = told(server.url, "5 USD", data)
        failed, _ = told(server.url, "fail", data)
        server.stop()
    assert steps_of(lines) == [
        "  node model T",
        "    model ScriptedChatModel T (first chunk T)",
        "  node tools T",
        '    tool convert T {"text": "5 USD"} → about 7 EUR with [redacted]',
        "  node model T",
        "    model ScriptedChatModel T (first chunk T)",
    ]
    steps = [each["step"] for each in document["story"] if each["kind"] == "step"]
    assert [step["result"] for step in steps if step["kind"] == "tool"] == ["about 7 EUR with [redacted]"]
    assert '    tool convert T ✗ ValueError {"text": "fail"} → no rate' in without_times(failed)
    logged = without_times([line[9:].rstrip() for line in server.printed if "  tool convert" in line])
    assert logged == [
        '  tool convert T {"text": "5 USD"} → about 7 EUR with [redacted]',
        '  tool convert T ✗ ValueError {"text": "fail"} → no rate',
    ]
    stored = "".join([*server.printed, *lines, *failed, json.dumps(document)])
    assert KEY[:20] not in stored
    assert all(KEY.encode() not in file.read_bytes() for file in data.glob("*.jsonl"))


@pytest.mark.deep
def test_why_shows_steps_of_adk_agent_with_sub_agents(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(ADK)
    data = tmp_path / "data"
    with serving(aion_dev(str(tmp_path / "agent.py"), "--no-reload"), AION_DATA_DIR=str(data)) as server:
        lines, _ = told(server.url, "5", data)
    assert steps_of(lines) == [
        "  agent root T",
        "    agent asks T",
        "      model scripted T",
        '      tool convert T {"amount": "5"} → about 5 EUR',
        "      model scripted T (first chunk T)",
        "    agent thanks T",
        "      model scripted T (first chunk T)",
    ]
    assert all("  tool convert" not in line for line in server.printed), "only with -v"
