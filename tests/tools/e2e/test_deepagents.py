"""An agent of deepagents, as its users install it: its trace in `aion why`, in the log and as spans.

deepagents isn't in the environment of the tests. tests/support/deepagents.txt is `uv pip compile --universal` of deepagents and of
aion-lambda[langgraph,local,otel].
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.collector import attributes, collecting
from tests.support.environments import python_with
from tests.support.server import ROOT, serving
from tests.tools.e2e.test_trace import steps_of, told, without_times

AGENT = """\
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

USAGE = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}


class Script(BaseChatModel):
    'Call these tools one after the other, then answer.'

    calls: list[Any] = []
    text: str = ""

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, *args, **kwargs):
        done = sum(each.type == "tool" for each in messages)
        if done < len(self.calls):
            name, arguments = self.calls[done]
            call = {"name": name, "args": arguments, "id": f"call-{name}"}
            message = AIMessage("", tool_calls=[call], usage_metadata=USAGE)
        else:
            message = AIMessage(self.text, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def weather(city: str) -> str:
    'Return the weather.'
    return f"Sunny in {city}"


agent = create_deep_agent(
    model=Script(
        calls=[
            ("write_file", {"file_path": "/question.md", "content": "Rome?"}),
            ("task", {"description": "The weather in Rome?", "subagent_type": "researcher"}),
        ],
        text="It is sunny.",
    ),
    subagents=[
        {
            "name": "researcher",
            "description": "Looks up the weather.",
            "system_prompt": "Look it up.",
            "model": Script(calls=[("weather", {"city": "Rome"})], text="Sunny, they say."),
            "tools": [weather],
        }
    ],
)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter of an environment with deepagents."""
    try:
        return python_with(ROOT / "tests" / "support" / "deepagents.txt")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT PROVEN: the trace of deepagents. It cannot be installed: {error}")


@pytest.mark.deep
def test_trace_of_deepagents_is_shown_logged_and_exported(python: Path, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    data = tmp_path / "data"
    command = [str(python), "-m", "aion_tools.cli", "dev", str(tmp_path / "agent.py"), "--no-reload", "-v"]
    with collecting() as collector:
        environ = {
            "AION_DATA_DIR": str(data),
            "PYTHONPATH": str(ROOT),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        }
        with serving(command, **environ) as server:
            lines, _ = told(server.url, "hello", data)
            assert server.stop() == 0
    steps = [line for line in steps_of(lines) if "Middleware" not in line]
    # The room for the arguments depends on the digits of the time.
    assert [re.sub(r" \{.*(…|\})", "", line.lstrip()) for line in steps if "tool " in line or "agent " in line] == [
        "tool write_file T → Updated file /question.md",
        "tool task T → Sunny, they say.",
        "agent researcher T",
        "tool weather T → Sunny in Rome",
    ]
    # The steps of the sub-agent are within the call of the tool.
    depths = {line.split()[1]: len(line) - len(line.lstrip()) for line in steps}
    assert depths["task"] < depths["researcher"] < depths["weather"]
    assert sum("model Script T 20 → 5 tokens" in line for line in steps) == 5
    logged = without_times([line[10:].strip() for line in server.printed])
    assert 'tool weather T {"city": "Rome"} → Sunny in Rome' in logged
    assert "agent researcher T" in logged
    spans = {span.name: span for span in collector.spans}
    tool, task = spans["execute_tool weather"], spans["execute_tool task"]
    assert attributes(tool)["gen_ai.tool.name"] == "weather"
    assert attributes(spans["invoke_agent researcher"])["gen_ai.operation.name"] == "invoke_agent"
    assert spans["invoke_agent researcher"].parent_span_id == task.span_id
    assert tool.trace_id == task.trace_id
    assert "Sunny" not in collector.text
