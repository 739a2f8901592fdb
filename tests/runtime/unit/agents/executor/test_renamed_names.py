"""Names that changed between a2a-sdk 0.3 and 1.x, in docs/from-a2a-sdk.md: each line runs under its own version."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.environments import python_with
from tests.support.rows import each_row
from tests.support.server import ROOT

PROGRAM = Path(__file__).with_name("sdk_names.py")
GUIDE = ROOT / "docs" / "from-a2a-sdk.md"

OLD = """
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import *
from a2a.utils import *
from a2a.utils.errors import ServerError

part, data_part = Part(root=TextPart(text="Hi")), Part(root=DataPart(data={"a": 1}))
file_part = Part(root=FilePart(file=FileWithUri(uri="https://example.org/a.png", mime_type="image/png")))
message, status = Message(message_id="m", role=Role.user, parts=[part]), TaskStatus(state=TaskState.working)
context = RequestContext()
"""
NEW = """
from a2a.helpers import *
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import EventQueueLegacy as EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import *
from google.protobuf.json_format import MessageToDict, MessageToJson, ParseDict

part, data_part = Part(text="Hi"), new_data_part({"a": 1})
file_part = Part(url="https://example.org/a.png", media_type="image/png")
message, status = Message(message_id="m", role=Role.ROLE_USER, parts=[part]), TaskStatus(state=TaskState.TASK_STATE_WORKING)
context = RequestContext(ServerCallContext())
"""
BOTH = """
given = {"messageId": "m", "role": "%s", "parts": [{"text": "Hi"}]}
artifact, updater = new_text_artifact("answer", "Hi"), TaskUpdater(EventQueue(), "task-1", "context-1")
modes, skill = ["text/plain"], AgentSkill(id="s", name="S", description="S.", tags=["s"])
card = {"name": "S", "description": "S.", "version": "1", "skills": [skill], "capabilities": AgentCapabilities()}
card |= {"default_input_modes": modes, "default_output_modes": modes}
"""

_TABLE = GUIDE.read_text(encoding="utf-8").partition("## Names of a2a-sdk")[2]
ROWS = [
    [re.findall(r"`(.+?)`", cell) if cell.startswith("`") else [] for cell in row]
    for row in re.findall(r"^\| (`.+) \| (.+) \|$", _TABLE, re.M)
]


@cache
def refused_lines(python: Path, setup: str, side: int) -> list[str]:
    """Return the lines of one side of the table that the a2a-sdk of this interpreter refuses."""
    given = json.dumps({"setup": setup, "lines": [line for row in ROWS for line in row[side]]})
    ran = subprocess.run([python, PROGRAM], input=given, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    lines: list[str] = json.loads(ran.stdout)
    return lines


@pytest.mark.deep
@each_row("row", ROWS)
def test_renamed_name_works_in_its_version(row: list[list[str]]) -> None:
    """Run a row of the guide: the old code under a2a-sdk 0.3.26 and the new under 1.x, which refuses the old code."""
    old = python_with(ROOT / "tests" / "support" / "a2a-sdk-0.3.txt")
    new, setup = Path(sys.executable), NEW + BOTH % "ROLE_USER"
    before, after = map(set, row)
    assert before.isdisjoint(refused_lines(old, OLD + BOTH % "user", 0))
    assert before.issubset(refused_lines(new, setup, 0))
    assert after.isdisjoint(refused_lines(new, setup, 1))


def test_guide_names_what_public_executors_use() -> None:
    """Find the names in the table that most executors for 0.3 use: it has a row for each."""
    text = " ".join(line for row in ROWS for line in row[0])
    wanted = ["ServerError", "new_agent_text_message", "new_task", "new_text_artifact", "TextPart", "DataPart", ".root"]
    assert [name for name in [*wanted, "TaskState.working", "a2a.server.apps"] if name not in text] == []
