"""Package plans, the inputs of a Lambda package, for a project outside of aion-lambda's repository."""

from importlib import metadata
from pathlib import Path

import pytest
from aion_tools.package.plan import PackagePlan, plan

from aion_core.loading.deployment import read_deployment_config
from aion_tools.programs import BuildError, find_uv, run

AGENT = "from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n"
FILES = {
    "aion.yaml": "aion: {agents: {mine: {path: agent.py}}}",
    "agent.py": AGENT + "from private.words import hello\n",
    "private/words.py": "hello = 'hello'\n",
    "prompts/hello.txt": "Hello",
    ".env": "OPENAI_API_KEY=sk-1",
    ".git/config": "",
}


def project(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def planned(folder: Path, function: str = "TaskFunction") -> PackagePlan:
    return plan(function, folder=folder, architecture="arm64", python="3.13")


def places(made: PackagePlan) -> set[str]:
    own = ("aion/", "aion_core/", "handlers/")
    return {place for place, _ in made.files if not place.startswith(own)}


def test_function_packages_contain_project_if_function_runs_agents(tmp_path: Path) -> None:
    made = planned(project(tmp_path))
    assert places(made) == {"aion.yaml", "agent.py", "private/words.py", "prompts/hello.txt"}
    assert [(agent.id, agent.path) for agent in made.agents] == [("mine", "agent.py")]
    assert "langgraph==" in made.requirements
    assert "google-adk" not in made.requirements


def test_function_packages_omit_project_if_function_runs_no_agents(tmp_path: Path) -> None:
    made = planned(project(tmp_path), "SweepFunction")
    assert places(made) == set()
    assert "langgraph" not in made.requirements


def test_lambda_package_contains_runtime_without_developer_tools(tmp_path: Path) -> None:
    files = [place.split("/") for place, _ in planned(project(tmp_path)).files]
    assert {folder[1] for folder in files if folder[0] == "aion_core"} >= {
        "bootstrap",
        "engine",
        "web",
        "lambda_runtime",
    }
    assert "aion_tools" not in {folder[0] for folder in files}


def test_packaging_finds_agent_module_in_src_folder(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "src" / "my_pkg").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "my_pkg" / "__init__.py").touch()
    (folder / "src" / "my_pkg" / "graph.py").write_text(AGENT)
    (folder / "aion.yaml").write_text('aion: {agents: {mine: {path: "my_pkg.graph:graph"}}}')
    made = planned(folder)
    assert made.agents[0].file == folder / "src" / "my_pkg" / "graph.py"
    assert folder / "src" in made.roots


def test_packaged_project_can_read_metadata_of_its_own_distribution(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "Acme.Bot"\nversion = "1.2"\n[project.scripts]\nacme = "agent:main"\n'
        '[project.entry-points."acme.tools"]\none = "private.words:hello"\n'
    )
    found = {place: file for place, file in planned(folder).files if place.startswith("acme_bot-1.2.dist-info/")}
    for place, file in found.items():
        (tmp_path / "task" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / place).write_bytes(file.read_bytes())
    (own,) = metadata.distributions(path=[str(tmp_path / "task")])
    assert (own.name, own.version) == ("Acme.Bot", "1.2")
    assert {(point.group, point.name, point.value) for point in own.entry_points} == {
        ("console_scripts", "acme", "agent:main"),
        ("acme.tools", "one", "private.words:hello"),
    }


def test_private_key_in_project_fails_build(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "deploy.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n")
    with pytest.raises(BuildError, match=r"deploy\.pem, line 1: a private key \(private-key\)\. Move.*\.aionignore"):
        planned(folder)
    (folder / ".aionignore").write_text("*.pem\n")
    assert "deploy.pem" not in places(planned(folder))


def test_build_refuses_aion_config_variable_naming_another_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(FILES["aion.yaml"])
    monkeypatch.setenv("AION_CONFIG", str(elsewhere))
    with pytest.raises(BuildError, match=r"AION_CONFIG is .*elsewhere\.yaml, but this build uses .*aion\.yaml"):
        planned(project(tmp_path / "here"))
    monkeypatch.setenv("AION_CONFIG", str(tmp_path / "here" / "aion.yaml"))
    assert planned(tmp_path / "here").agents


@pytest.mark.parametrize("name", ["handlers/mine.py", "aion.py", "aion_core/x.py", "aion_tools/x.py"])
def test_reserved_module_names_in_project_are_refused(tmp_path: Path, name: str) -> None:
    folder = project(tmp_path)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    with pytest.raises(BuildError, match="is reserved for aion's own code"):
        planned(folder)


def test_build_refuses_agent_excluded_by_gitignore(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / ".gitignore").write_text("agent.py\n")
    with pytest.raises(BuildError, match=r"agent\.py is excluded from the package: matched by \.gitignore"):
        planned(folder)


@pytest.mark.parametrize("reason", ["matched by .gitignore", "link out of the folder"])
def test_build_refuses_agent_that_imports_file_excluded_from_package(tmp_path: Path, reason: str) -> None:
    folder = project(tmp_path / "agents")
    shared = tmp_path / ("shared" if reason.startswith("link") else "agents/shared")
    shared.mkdir()
    (shared / "words.py").touch()
    if reason.startswith("link"):
        (folder / "shared").symlink_to(shared)
    else:
        (folder / ".gitignore").write_text("shared/\n")
    (folder / "agent.py").write_text(f"import shared.words\n{(folder / 'agent.py').read_text()}")
    with pytest.raises(
        BuildError, match=f"shared/words.py is excluded from the package: {reason}, but an agent needs it"
    ):
        planned(folder)


def test_build_adds_no_framework_for_import_of_unknown_module(tmp_path: Path) -> None:
    """A framework's requirements may conflict with the lock, and hide the error about the unknown import."""
    (project(tmp_path) / "agent.py").write_text("import no_such_module\ngraph = no_such_module.graph\n")
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'mine'\nversion = '1'\nrequires-python = '>=3.11'\ndependencies = ['langgraph']"
    )
    run([find_uv(), "lock", "--quiet", "--project", str(tmp_path)])
    assert "google-adk" not in planned(tmp_path).requirements


@pytest.mark.parametrize("name", ["agent.py", "private/words.py"])
@pytest.mark.parametrize("python", ["3.13", "3.99"])
def test_syntax_error_is_reported_before_dependency_errors(tmp_path: Path, name: str, python: str) -> None:
    """Code that cannot be parsed would need every framework, whose requirements may conflict with the project's."""
    file = project(tmp_path) / name
    file.write_text("x = 1\ndef (\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\ndependencies = ['no-such']")
    with pytest.raises(
        BuildError, match=rf"(?s)^{name} is not valid Python .*{name}\", line 2.*SyntaxError: "
    ) as refused:
        plan("TaskFunction", folder=tmp_path, architecture="arm64", python=python)
    assert ("uv python install 3.99" in str(refused.value)) == (python == "3.99")


def test_folder_without_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BuildError, match=r"has no agent\. Looked for: aion\.yaml, langgraph\.json"):
        planned(tmp_path)


def test_langgraph_json_is_packaged_as_aion_yaml(tmp_path: Path) -> None:
    (tmp_path / "src" / "agent").mkdir(parents=True)
    (tmp_path / "src" / "agent" / "graph.py").write_text(AGENT)
    text = '{"graphs": {"mine": "./src/agent/graph.py:graph"}, "dependencies": [".", "cowsay==6.0"], "env": ".env"}'
    (tmp_path / "langgraph.json").write_text(text)
    made = planned(tmp_path)
    assert [(agent.id, agent.path) for agent in made.agents] == [("mine", "src/agent/graph.py:graph")]
    assert "cowsay==6.0" in made.requirements
    (config,) = [file for place, file in made.files if place == "aion.yaml"]
    assert read_deployment_config(config).agents["mine"].path == "src/agent/graph.py:graph"


def test_adk_agent_package_must_be_built_in_parent_folder(tmp_path: Path) -> None:
    folder = tmp_path / "weather"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text("from google.adk.agents import Agent\nroot_agent = Agent(name='weather')\n")
    with pytest.raises(BuildError, match="weather is a Python package: build in its parent folder"):
        planned(folder)
    made = planned(tmp_path)
    assert {"weather/__init__.py", "weather/agent.py", "aion.yaml"} == places(made)
    assert "google-adk==" in made.requirements


def test_absolute_path_of_agent_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "aion.yaml").write_text(f"aion: {{agents: {{mine: {{path: '{folder}/agent.py'}}}}}}")
    with pytest.raises(
        BuildError, match=r"agent\.py' of an agent is absolute; write it relative to aion\.yaml's folder"
    ):
        planned(folder)


@pytest.mark.parametrize(
    ("path", "reason"), [("agnt.py", "does not exist in the project"), ("../agent.py", "is outside of the project")]
)
def test_agent_without_file_in_project_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    folder = project(tmp_path / "here")
    (tmp_path / "agent.py").touch()
    (folder / "aion.yaml").write_text(f"aion: {{agents: {{mine: {{path: {path}}}}}}}")
    with pytest.raises(BuildError, match=f"{path}' {reason}'s folder, .*/here: correct its path in"):
        planned(folder)


def test_error_for_missing_agent_names_langgraph_json(tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./agnt.py:graph"}, "dependencies": ["."]}')
    with pytest.raises(BuildError, match=r"'agnt\.py:graph' does not exist .* in aion\.yaml or langgraph\.json"):
        planned(tmp_path)


def test_python_path_folder_outside_project_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "here")
    (tmp_path / "elsewhere").mkdir()
    (folder / "aion.yaml").write_text("aion: {python_path: [../elsewhere], agents: {mine: {path: agent.py}}}")
    with pytest.raises(BuildError, match=r"python_path has .*elsewhere, outside of the project's folder"):
        planned(folder)
