"""Creation of projects in a new folder, and in a folder with existing files."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from aion_tools.project import ProjectError
from aion_tools.project.create import complete, create
from aion_tools.project.files import Project, build_rule, rendered
from aion_tools.project.origin import Origin, recorded
from aion_tools.template import stacks

PROJECT = Project("my-agent", "langgraph", Origin())
AGENTS = "aion: {agents: {helper: {path: helper.py}}}\n"


def texts(folder: Path) -> dict[str, str]:
    return {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_create_writes_every_file(tmp_path: Path) -> None:
    made = create(tmp_path / "new" / "my-agent", PROJECT)
    there = texts(tmp_path / "new" / "my-agent")
    assert {path: there[path] for path in made.written} == rendered(PROJECT)
    assert all(path in made.written or path.startswith(f"{stacks.FOLDER}/") for path in there)
    assert f"{stacks.FOLDER}/template.yaml" in there


def test_create_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine\n")
    (tmp_path / "notes.txt").write_text("mine\n")
    with pytest.raises(ProjectError, match=r"has agent\.py already\. Nothing was written\. .*--force") as refused:
        create(tmp_path, PROJECT)
    assert "notes.txt" not in str(refused.value)
    assert texts(tmp_path) == {"agent.py": "mine\n", "notes.txt": "mine\n"}


def test_create_refuses_file_in_place_of_folder(tmp_path: Path) -> None:
    (tmp_path / "my-agent").touch()
    with pytest.raises(ProjectError, match="is a file"):
        create(tmp_path / "my-agent", PROJECT)


def test_init_keeps_existing_project_files(tmp_path: Path) -> None:
    mine = {
        "helper.py": "graph = 1\n",
        "README.md": "# Mine\n",
        ".gitignore": ".env\n",
        "samconfig.toml": "version = 0.1\n",
    }
    for path, text in mine.items():
        (tmp_path / path).write_text(text)
    made = complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    there = texts(tmp_path)
    assert {path: there[path] for path in mine} == mine
    assert there["aion.yaml"] == AGENTS
    assert set(made.kept) == {".gitignore", "samconfig.toml"}
    assert not (tmp_path / "agent.py").exists()
    assert not (tmp_path / "tests").exists()
    assert {"aion.yaml", "pyproject.toml", "template.yaml", "Makefile", ".aionignore"} <= set(made.written)
    assert f"{stacks.FOLDER}/template.yaml" in there


def test_second_init_writes_no_files(tmp_path: Path) -> None:
    complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    before = texts(tmp_path)
    assert complete(tmp_path, PROJECT, agents_yaml=None).written == []
    assert texts(tmp_path) == before


def test_init_appends_build_rule_to_makefile(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\techo all")
    made = complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    text = (tmp_path / "Makefile").read_text()
    assert text == f"all:\n\techo all\n\n{build_rule()}"
    assert any(note.startswith("Makefile: the rule") for note in made.notes)
    assert "Makefile" in complete(tmp_path, PROJECT, agents_yaml=AGENTS).kept
    assert (tmp_path / "Makefile").read_text() == text


def test_init_keeps_authors_makefile_build_rule(tmp_path: Path) -> None:
    own = "build-%:\n\tcp -r . $(ARTIFACTS_DIR)\n"
    (tmp_path / "Makefile").write_text(own)
    made = complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    assert (tmp_path / "Makefile").read_text() == own
    assert any("$(AION) build" in note for note in made.notes)


def test_init_refuses_template_of_another_application(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text("Resources:\n")
    with pytest.raises(ProjectError, match=r"template\.yaml in this folder is another application's") as refused:
        complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    assert texts(tmp_path) == {"template.yaml": "Resources:\n"}
    assert "copy the sections Transform, Parameters, Conditions, Resources and Outputs" in str(refused.value)
    both = rendered(PROJECT)["template.yaml"] + "  Mine: { Value: mine }\n"
    (tmp_path / "template.yaml").write_text(both)
    assert "template.yaml" in complete(tmp_path, PROJECT, agents_yaml=AGENTS).kept
    assert (tmp_path / "template.yaml").read_text() == both


def test_init_names_copied_stacks_of_earlier_project(tmp_path: Path) -> None:
    """Such a project has a copy of the package's template.yaml and stacks, and a second one in infra/.shipped."""
    old = {
        "template.yaml": "# AION_CONFIG\n",
        "infra/state.yaml": "",
        "infra/.shipped/VERSION": "",
        "infra/mine.yaml": "",
    }
    for path, text in old.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(ProjectError, match=r"git rm -r template\.yaml infra/state\.yaml infra/\.shipped\. Run"):
        complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    assert texts(tmp_path) == old


@pytest.mark.parametrize(
    ("file", "text", "note"),
    [
        ("pyproject.toml", "[project]\nname = 'mine'\n", "uv add 'aion-lambda[langgraph]>="),
        ("requirements.txt", "langgraph\n", "Add it: echo 'aion-lambda[langgraph]>="),
    ],
)
def test_init_reports_missing_dependency(tmp_path: Path, file: str, text: str, note: str) -> None:
    (tmp_path / file).write_text(text)
    made = complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    assert "pyproject.toml" not in made.written
    assert any(note in said for said in made.notes)
    (tmp_path / file).write_text(f"{text}# aion-lambda\n")
    assert not complete(tmp_path, PROJECT, agents_yaml=AGENTS).notes


def test_init_prints_missing_project_table_first(tmp_path: Path) -> None:
    """`uv add` refuses a pyproject.toml without this table."""
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    table, command = complete(tmp_path, PROJECT, agents_yaml=AGENTS).notes
    _, _, lines = table.partition("Add these lines:\n")
    assert tomllib.loads(lines)["project"]["name"] == PROJECT.name
    assert "uv add 'aion-lambda[langgraph]" in command


@pytest.mark.parametrize("file", ["pyproject.toml", "requirements.txt", "Makefile"])
def test_init_names_file_that_is_not_utf_8(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"# \xe9\n")
    with pytest.raises(ProjectError, match=rf"{file} is not UTF-8"):
        complete(tmp_path, PROJECT, agents_yaml=AGENTS)
    assert (tmp_path / file).read_bytes() == b"# \xe9\n"
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_note_about_missing_aion_dependency_names_local_wheel(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("langgraph\n")
    project = Project("my-agent", "langgraph", recorded("", is_local=True))
    [note] = complete(tmp_path, project, agents_yaml=AGENTS).notes
    assert note.endswith(f"Add it: echo './{project.origin.wheel}[langgraph]' >> requirements.txt")
    assert (tmp_path / project.origin.wheel).is_file()
    with (tmp_path / "requirements.txt").open("a") as lines:
        lines.write(f"./{project.origin.wheel}[langgraph]\n")
    again = complete(tmp_path, project, agents_yaml=AGENTS)
    assert (again.written, again.notes) == ([], [])


def test_init_adds_no_wheel_to_project_that_has_aion_lambda(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("aion-lambda[langgraph]\n")
    complete(tmp_path, Project("my-agent", "langgraph", recorded("", is_local=True)), agents_yaml=AGENTS)
    assert not (tmp_path / "vendor").exists()
    assert "vendor" not in (tmp_path / ".github/workflows/deploy.yml").read_text()


@pytest.mark.parametrize("in_environment", [True, False], ids=["environment", "path"])
def test_projects_makefile_finds_aion_command(tmp_path: Path, in_environment: bool) -> None:
    """The Makefile prefers the `aion` of the project's environment to the `aion` on PATH."""
    create(tmp_path, PROJECT)
    program = tmp_path / (".venv/bin/aion" if in_environment else "bin/aion")
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$0 $*"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    command = ["make", "--no-print-directory", "build-ApiFunction", "ARTIFACTS_DIR=/tmp/to here"]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    name = ".venv/bin/aion" if in_environment else str(program)
    assert ran.stdout == f"{name} build ApiFunction --to /tmp/to here\n"
