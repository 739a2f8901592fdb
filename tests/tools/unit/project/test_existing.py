"""`aion init` in folders with and without agents."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from aion_tools.package.selection import select
from aion_tools.project.files import OBJECTS, Project, rendered
from aion_tools.project.origin import Origin
from aion_tools.testing import serve
from tests.support import operating
from tests.support.installed import as_from_index
from tests.support.operating import RunCommand, refusal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in an empty folder, without a network."""
    as_from_index(tmp_path / "installed", monkeypatch)
    (tmp_path / "my-agents").mkdir()
    monkeypatch.chdir(tmp_path / "my-agents")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / ".cache"))
    return operating.runs({})


def initialized(run: RunCommand, *arguments: str) -> str:
    """Run `aion init`, and return its output."""
    ran = run("init", *arguments)
    assert ran.exit_code == 0, ran.output
    return ran.output


def example(framework: str) -> str:
    return rendered(Project("my-agent", framework, Origin()))["agent.py"]


def texts(folder: Path) -> dict[str, str]:
    return {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}


async def served(folder: Path) -> str:
    async with serve(folder / "aion.yaml") as client:
        return (await client.ask("one two")).text


@pytest.mark.parametrize("framework", OBJECTS)
async def test_init_writes_config_for_found_agent(run: RunCommand, framework: str) -> None:
    Path("helper.py").write_text(example(framework))
    told = initialized(run)
    assert told.startswith("helper.py: ")
    assert "Completed my-agents in " in told
    assert not Path("agent.py").exists()
    assert not Path("README.md").exists()
    extra = "api" if framework == "executor" else framework
    assert f'dependencies = ["aion-lambda[{extra}]>=' in Path("pyproject.toml").read_text()
    assert await served(Path.cwd()) == "Your message has 2 words."


async def test_init_reads_langgraph_json(run: RunCommand) -> None:
    folder = Path("src", "counting")
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "graph.py").write_text(example("langgraph"))
    content = {
        "dependencies": [".", "cowsay"],
        "graphs": {"counter": "./src/counting/graph.py:graph"},
        "env": {"A": "1"},
        "auth": {"path": "./auth.py:auth"},
    }
    Path("langgraph.json").write_text(json.dumps(content))
    Path("pyproject.toml").write_text("[project]\nname = 'counting'\n")
    told = initialized(run)
    assert "langgraph.json: graph counter." in told
    assert "uv add cowsay" in told
    assert "langgraph.json is no longer read: aion.yaml replaces it.\n" in told
    assert "Warning: `auth` of langgraph.json protects nothing here: " in told
    assert "langgraph.json sets A: aion.yaml sets them under `environment`." in told
    assert yaml.safe_load(Path("aion.yaml").read_text())["aion"]["environment"] == {"A": "1"}
    assert "pyproject.toml has no aion-lambda. Add it: uv add 'aion-lambda[langgraph]>=" in told
    assert Path("pyproject.toml").read_text() == "[project]\nname = 'counting'\n"
    assert await served(Path.cwd()) == "Your message has 2 words."


async def test_init_finds_agent_in_adk_folder(run: RunCommand) -> None:
    Path("counter").mkdir()
    Path("counter", "__init__.py").write_text("from . import agent\n")
    Path("counter", "agent.py").write_text(example("adk"))
    initialized(run)
    assert "aion-lambda[adk]" in Path("pyproject.toml").read_text()
    assert await served(Path.cwd()) == "Your message has 2 words."


@pytest.mark.parametrize(
    ("files", "extra"),
    [
        ({"agent.py": "from google.adk.agents import LlmAgent\nroot_agent = 1\n", "__init__.py": ""}, "[adk]"),
        ({"__init__.py": "from a2a.server.agent_execution import AgentExecutor\nexecutor = 1\n"}, "[api]"),
        ({"__init__.py": "from ours import graph\n"}, "[adk,langgraph]"),
    ],
    ids=["agent.py", "executor", "untold"],
)
def test_init_derives_requirement_from_agent_imports(run: RunCommand, files: dict[str, str], extra: str) -> None:
    Path("counter").mkdir()
    for path, text in files.items():
        Path("counter", path).write_text(text)
    Path("aion.yaml").write_text("aion: {agents: {counter: {path: counter}}}\n")
    initialized(run)
    assert f'dependencies = ["aion-lambda{extra}>=' in Path("pyproject.toml").read_text()


def test_init_inside_python_package_suggests_parent_folder(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("counter").mkdir()
    monkeypatch.chdir("counter")
    Path("__init__.py").write_text("from . import agent\n")
    Path("agent.py").write_text(example("adk"))
    before = texts(Path.cwd())
    assert "counter is a Python package, so its project is the parent folder" in refusal(run("init"))
    assert texts(Path.cwd()) == before


def test_init_keeps_aion_yaml(run: RunCommand) -> None:
    Path("mine.py").write_text(example("adk"))
    Path("aion.yaml").write_text("aion: {agents: {mine: {path: mine.py}}}\n")
    told = initialized(run, "other-name")
    assert "Kept: aion.yaml\n" in told
    assert Path("aion.yaml").read_text() == "aion: {agents: {mine: {path: mine.py}}}\n"
    assert "aion-lambda[adk]" in Path("pyproject.toml").read_text()
    assert 'stack_name = "other-name-dev"' in Path("samconfig.toml").read_text()


def test_init_with_ambiguous_agents_writes_nothing(run: RunCommand) -> None:
    for name in ("one.py", "two.py"):
        Path(name).write_text(example("langgraph"))
    before = texts(Path.cwd())
    assert "has several agents: one.py:graph, two.py:graph" in refusal(run("init"))
    assert texts(Path.cwd()) == before


def test_init_in_code_without_agent_writes_nothing(run: RunCommand) -> None:
    Path("tool.py").write_text("print('hello')\n")
    assert "has no agent" in refusal(run("init"))
    assert [path.name for path in Path.cwd().iterdir()] == ["tool.py"]


async def test_init_of_empty_folder_creates_example_agent(run: RunCommand) -> None:
    Path("README.md").write_text("# Mine\n")
    ran = run("new", "--here", "--framework", "executor")
    assert ran.exit_code == 0, ran.output
    assert "Kept: README.md\n" in ran.output
    assert "aion-lambda[api]>=" in Path("pyproject.toml").read_text()
    assert await served(Path.cwd()) == "Your message has 2 words."


def test_init_refuses_framework_option_beside_existing_agent(run: RunCommand) -> None:
    Path("helper.py").write_text(example("adk"))
    ran = run("init", "--framework", "adk")
    assert (ran.exit_code, "this folder has an agent" in ran.output) == (2, True)
    assert [path.name for path in Path.cwd().iterdir()] == ["helper.py"]


def test_init_ignores_virtual_environments(run: RunCommand) -> None:
    shutil.copytree(Path(__file__).parent, ".venv/lib/project")
    assert run("init").exit_code == 0
    assert Path("agent.py").is_file()


# --- Next steps ---


def steps(job: str) -> list[str]:
    """Return the commands of a job of the GitHub workflow."""
    workflow = yaml.safe_load(Path(".github/workflows/deploy.yml").read_text())
    return [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step]


def test_init_in_project_without_tests_writes_no_test_steps(run: RunCommand) -> None:
    Path("helper.py").write_text(example("langgraph"))
    assert "deployment of main\n" in run("init").output
    workflow = Path(".github/workflows/deploy.yml").read_text()
    assert steps("deploy") == ["uv sync --locked", "uv run aion deploy --env prod --yes"]
    assert not any(word in workflow for word in ("pytest", "pull_request", "needs"))


def test_init_runs_existing_tests(run: RunCommand) -> None:
    Path("helper.py").write_text(example("langgraph"))
    Path("tests").mkdir()
    Path("tests", "test_helper.py").write_text("def test_helper():\n    assert True\n")
    run("init")
    assert steps("test") == ["uv sync --locked", "uv run pytest"]


def test_init_of_requirements_txt_project_prints_pip_commands(run: RunCommand) -> None:
    Path("helper.py").write_text(example("langgraph"))
    Path("requirements.txt").write_text("langgraph")
    ran = run("init")
    assert "Add it: echo >> requirements.txt && echo 'aion-lambda[langgraph]>=" in ran.output
    first, install, *rest = ran.output.partition("Next:\n")[2].splitlines()
    assert first == "  python3 -m venv .venv"
    assert install.startswith("  .venv/bin/pip install -r requirements.txt 'aion-lambda[local]>=")
    assert rest == ["  .venv/bin/aion dev", "  .venv/bin/aion doctor"]
    assert steps("deploy") == ["python -m venv .venv", install.strip(), ".venv/bin/aion deploy --env prod --yes"]


@pytest.mark.parametrize(
    ("file", "text", "tool"),
    [
        ("pyproject.toml", "[tool.poetry]\nname = 'mine'\n", "poetry"),
        ("pdm.lock", "", "pdm"),
        ("Pipfile", "[packages]\n", "pipenv"),
    ],
)
def test_init_prints_commands_of_the_projects_dependency_tool(run: RunCommand, file: str, text: str, tool: str) -> None:
    Path("helper.py").write_text(example("langgraph"))
    Path(file).write_text(text)
    told = initialized(run)
    assert "uv add" not in told
    verb = "install" if tool == "pipenv" else "add"
    assert f"Add it: {tool} {verb} 'aion-lambda[langgraph]>=" in told
    assert "`aion build` reads dependencies from `[project]` in pyproject.toml, or from a requirements.txt" in told
    assert told.endswith(f"Next:\n  {tool} run aion dev\n  {tool} run aion doctor\n")
    assert steps("deploy")[-1] == f"{tool} run aion deploy --env prod --yes"
    assert not Path("uv.lock").exists()
    assert Path(file).read_text() == text


def test_init_names_dependencies_of_setup_py_without_running_it(run: RunCommand) -> None:
    Path("helper.py").write_text(example("langgraph"))
    setup = "open('ran', 'w')\nfrom setuptools import setup\nsetup(name='mine', install_requires=['cowsay'])\n"
    Path("setup.py").write_text(setup)
    told = initialized(run)
    assert "setup.py has dependencies (install_requires). aion does not read them" in told
    assert "`uv add NAME`" in told
    assert not Path("ran").exists()
    assert Path("setup.py").read_text() == setup


def test_aionignore_of_init_excludes_no_authors_file(run: RunCommand) -> None:
    Path("helper.py").write_text(example("langgraph"))
    mine = ["README.md", "docs/manual.txt", "infra/data.txt", "tests/data.txt"]
    for name in mine:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("mine\n")
    run("init")
    assert set(mine) <= {file.relative_to(Path.cwd()).as_posix() for file in select(Path.cwd()).files}


def test_aionignore_of_new_excludes_generated_files(run: RunCommand) -> None:
    run("new", "--here")
    Path("docs").mkdir()
    Path("docs", "manual.txt").write_text("text\n")
    packed = {file.relative_to(Path.cwd()).as_posix() for file in select(Path.cwd()).files}
    packed = {name for name in packed if not name.startswith("infra/")}
    assert packed == {"agent.py", "aion.yaml", "docs/manual.txt", "pyproject.toml"}
