"""Commands for an agent of a framework that the registry has in addition."""

from pathlib import Path

from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.frameworks import FRAMEWORKS
from aion_tools.agent_code.imports import frameworks_of
from aion_tools.cli.checks.local import check_agents
from aion_tools.testing import serve
from tests.support.toy_framework import project

__all__ = ["project"]


async def test_agent_of_registered_framework_answers(project: Path) -> None:
    async with serve(project / "aion.yaml") as client:
        assert (await client.ask("Hello")).text == "Hello from a toy."


def test_registered_framework_is_packaged(project: Path) -> None:
    assert frameworks_of(project / "agent.py", [project]) == {"toy"}


def test_aion_doctor_names_registered_framework(project: Path) -> None:
    [check] = check_agents(read_deployment_config(project / "aion.yaml"))
    assert "agent.py is a toy, loaded in" in str(check)


def test_error_for_unsupported_object_lists_supported_agent_objects(project: Path) -> None:
    (project / "agent.py").write_text("mine = 1\n")
    (project / "aion.yaml").write_text("aion: {agents: {toy: {path: 'agent.py:mine'}}}\n")
    [check] = check_agents(read_deployment_config(project / "aion.yaml"))
    assert "which is not an agent" in str(check)
    assert all(framework.objects in str(check) for framework in FRAMEWORKS.values())
