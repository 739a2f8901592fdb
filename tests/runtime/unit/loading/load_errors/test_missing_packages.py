"""Missing packages of an agent: the remedy names the package and the command."""

import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.errors import AgentLoadError
from tests.runtime.unit.loading.load_errors.test_explain import isolated, made, written  # noqa: F401  # a fixture
from tests.support.rows import each_row
from tests.support.server import ROOT

NAMED = {
    "pyproject.toml": '[project]\nname = "mine"\nversion = "0"\ndependencies = ["Tabulate_Of.Test>=1"]\n',
    "requirements.txt": "# tools\ntabulate-of-test==1.0\n",
    "langgraph.json": '{"graphs": {"a": "./agent.py:graph"}, "dependencies": [".", "tabulate-of-test>=1"]}',
}
BY_UVX = {
    "pyproject.toml": "Start it in the project's: `uv run aion dev` (after `uv add 'aion-lambda[langgraph,adk]'` and ",
    "requirements.txt": "`uvx --with-requirements requirements.txt --from 'aion-lambda[langgraph,adk,local]' aion dev`.",
    "langgraph.json": "`uvx --with 'tabulate-of-test>=1' --from 'aion-lambda[langgraph,adk,local]' aion dev`.",
}
ELSEWHERE = {
    "pyproject.toml": "Run `uv sync`, then `uv run aion dev`.",
    "requirements.txt": "Run `pip install -r requirements.txt` there.",
    "langgraph.json": "Run `pip install 'tabulate-of-test>=1'` there.",
}


def remedy(folder: Path) -> str:
    with pytest.raises(AgentLoadError) as failed:
        made(folder, "agent.py").load()
    return failed.value.do


@pytest.mark.parametrize("file", NAMED)
def test_missing_package_error_under_uvx_suggests_suitable_command(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/x7")
    written(tmp_path, {"agent.py": "import tabulate_of_test\n", file: NAMED[file]})
    do = remedy(tmp_path)
    assert do.startswith(f"{file} names tabulate-of-test, but aion runs in an environment of its own (uvx)")
    assert BY_UVX[file] in do


@pytest.mark.parametrize("file", NAMED)
def test_missing_package_error_names_environment(file: str, tmp_path: Path) -> None:
    written(tmp_path, {"agent.py": "import tabulate_of_test\n", file: NAMED[file]})
    do = remedy(tmp_path)
    assert do.startswith(f"{file} names tabulate-of-test, but the environment that runs aion ({sys.prefix}) ")
    assert do.endswith(ELSEWHERE[file])


def test_error_suggests_uv_run_if_project_requires_aion_lambda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").mkdir()
    written(tmp_path, {"tool/uv-receipt.toml": "", "agent.py": "import tabulate_of_test\n"})
    named = NAMED["pyproject.toml"].replace('["Tab', '["aion-lambda[langgraph]", "Tab')
    (tmp_path / "pyproject.toml").write_text(named)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    assert "`uv run aion dev`, or `uvx --with-editable . --from" in remedy(tmp_path)


FRAMEWORKS = {
    "from langgraph.graph import StateGraph": ("langgraph", "This is a LangGraph graph"),
    "from google.adk.agents import Agent": (
        "google.adk",
        "This is an ADK agent: install aion-lambda[adk,local], as in ",
    ),
}


@each_row("line", FRAMEWORKS)
def test_error_for_missing_framework_names_package_extra(line: str, tmp_path: Path) -> None:
    """Load the agent in a new process in which its framework cannot be imported."""
    module, do = FRAMEWORKS[line]
    written(tmp_path, {"agent.py": f"{line}\n"})
    hidden = f"""
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

class Hides(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hides())
from aion_core.loading.objects.load import load_object
from aion_core.errors import AgentLoadError
try:
    load_object("agent.py", Path({str(tmp_path)!r}))
except AgentLoadError as error:
    print(error.do)
"""
    ran = subprocess.run([sys.executable, "-c", hidden], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(do)


ADK_FOLDER = {"{}/__init__.py": "from . import agent\n", "{}/agent.py": "root_agent = None\n"}
MODULE = {"{}.py": ""}
PACKAGE = {"{}/__init__.py": ""}
LOOK_UP = "The package's name may differ from the module's: look it up on pypi.org."
THIRD_PARTY: dict[str, tuple[str, str, dict[str, str], str]] = {
    "name like an agent beside it": ("import anthropic_of_test", "anthropics_of_test", ADK_FOLDER, LOOK_UP),
    "part of a package's name": ("import chat_of_test", "chat_of_test_agents", PACKAGE, LOOK_UP),
    "known package": (
        "from googleapiclient.discovery import build",
        "googleapi_client",
        PACKAGE,
        "Run `uv add google-api-python-client`, the package of the module googleapiclient.",
    ),
    "typo of a file": ("import promts_of_test", "prompts_of_test", MODULE, "Did you mean 'prompts_of_test'?"),
}


@each_row("case", THIRD_PARTY)
def test_missing_package_is_not_taken_for_sibling_agent(case: str, tmp_path: Path) -> None:
    line, sibling, files, expected = THIRD_PARTY[case]
    written(tmp_path, {"agent.py": f"{line}\n", **{file.format(sibling): text for file, text in files.items()}})
    assert expected in remedy(tmp_path)
    assert ("Did you mean" in remedy(tmp_path)) == expected.startswith("Did you mean")


NAMESPACES = {
    "import google.oauth3_of_test": "There is no module 'oauth3_of_test' in google: ",
    "import google.cloud.no_such_of_test": "Run `uv add google-cloud",
}


@pytest.mark.parametrize("line", NAMESPACES)
def test_missing_module_of_shared_namespace_names_its_package(line: str, tmp_path: Path) -> None:
    written(tmp_path, {"agent.py": f"{line}\n"})
    assert remedy(tmp_path).startswith(NAMESPACES[line])
