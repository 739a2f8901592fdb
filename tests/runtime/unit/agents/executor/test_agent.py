"""Loading of executors from aion.yaml."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.bootstrap import build_app
from aion_core.errors import ConfigurationError
from aion_core.loading.objects.load import load_object
from aion_core.settings import Settings
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.support.service import send

EXECUTOR = """
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

class Greeter(AgentExecutor):
    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.complete(updater.new_agent_message([Part(text=f"Hello, {context.get_user_input()}")]))

    async def cancel(self, context, event_queue):
        raise NotImplementedError
"""


def app_of(folder: Path, source: str, path: str) -> Any:
    for module in [name for name in sys.modules if name.startswith("aion_agent_")]:
        del sys.modules[module]
    (folder / "agent.py").write_text(source)
    (folder / "aion.yaml").write_text(f"aion:\n  agents:\n    greeter:\n      path: {path}\n")
    return build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml")}))


async def answer(app: Any) -> str:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        task = (await client.post("/", json=send("you"))).json()["result"]["task"]
        return str(task["status"]["message"]["parts"][0]["text"])


@each_row(
    ("more", "path"),
    [
        ("", "agent.py"),
        ("", "agent.py:Greeter"),
        ("executor = Greeter()", "agent.py"),
        ("executor = Greeter()", "agent.py:executor"),
        ("def make():\n    return Greeter()", "agent.py:make"),
        ("async def make():\n    return Greeter()", "agent.py:make"),
    ],
)
async def test_agent_file_may_export_executor_instance_class_or_function(tmp_path: Path, more: str, path: str) -> None:
    assert await answer(app_of(tmp_path, f"{EXECUTOR}\n{more}\n", path)) == "Hello, you"


def test_executor_class_with_arguments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        EXECUTOR.replace("async def execute", "def __init__(self, key): ...\n    async def execute")
    )
    with pytest.raises(ConfigurationError, match=r"TypeError.*key.*Name an instance in `path`, or a function"):
        load_object("agent.py", tmp_path)


async def test_executor_class_is_served_instead_of_its_abstract_base(tmp_path: Path) -> None:
    base = EXECUTOR.replace("class Greeter(", "class Base(").replace("    async def cancel", "    async def _cancel")
    made = f"{base}\n\nclass Greeter(Base):\n    async def cancel(self, context, event_queue): ...\n"
    assert await answer(app_of(tmp_path, made, "agent.py")) == "Hello, you"


@each_row(
    "code",
    [
        "await updater.update_status(TaskState.working)",
        "await updater.update_status(TaskState.TASK_STATE_COMPLETED, final=True)",
        "context.message.parts[0].root.text",
        "context.message.model_dump()",
        "Part(root=None)",
        "context.add_activated_extension('urn:x')",
    ],
)
async def test_error_of_code_for_older_sdk_has_a_remedy(
    code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = EXECUTOR.replace("import Part", "import Part, TaskState").replace(
        "        await updater", f"        {code}\n        await updater"
    )
    assert "could not finish this turn" in await answer(app_of(tmp_path, source, "agent.py"))
    (error,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert "docs/from-a2a-sdk.md#names-of-a2a-sdk-02-and-03" in str(getattr(error, "__notes__", ""))


async def test_other_errors_have_no_remedy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await answer(app_of(tmp_path, EXECUTOR.replace("await updater", "None.x; await updater"), "agent.py"))
    (error,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert not hasattr(error, "__notes__")


async def test_executor_with_a_task_store_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = "from a2a.server.tasks import InMemoryTaskStore\nexecutor = Greeter()\nexecutor.store = InMemoryTaskStore()"
    await answer(app_of(tmp_path, f"{EXECUTOR}\n{made}\n", "agent.py"))
    assert "get_aion_context().thread.history()" in caplog.text


def test_executor_class_without_cancel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(EXECUTOR.replace("async def cancel", "async def stop"))
    with pytest.raises(ConfigurationError, match="Define cancel in Greeter, or name another class in `path`"):
        load_object("agent.py", tmp_path)


@pytest.mark.deep
def test_sdk_server_is_imported_for_executors_only(tmp_path: Path) -> None:
    """Load an executor: this imports the SDK's server, but no other framework."""
    (tmp_path / "agent.py").write_text(EXECUTOR)
    (tmp_path / "aion.yaml").write_text("aion:\n  agents:\n    greeter:\n      path: agent.py\n")
    program = """
import sys
from aion_core.bootstrap.turns import build_turn_services
from aion_core.bootstrap.telemetry import build_telemetry
from aion_core.settings import Settings
settings = Settings.from_environ()
turns = build_turn_services(settings, build_telemetry(settings))
print([name for name in ("a2a.server", "aion_core.agents.executor") if name in sys.modules])
turns.agents["greeter"].load()
print([name for name in ("a2a.server", "aion_core.agents.executor") if name in sys.modules])
print([name for name in ("fastapi", "langgraph", "google.adk", "grpc") if name in sys.modules])
"""
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(tmp_path / "aion.yaml"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["[]", "['a2a.server', 'aion_core.agents.executor']", "[]"]
