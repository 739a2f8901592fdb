"""Creation of a project: all files in a new folder, or the missing files in an existing folder."""

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from aion_tools.package.declared import files_with_install_requires
from aion_tools.programs import UvMissing
from aion_tools.project import ProjectError, vendor
from aion_tools.project.files import AGENT_FILES, Project, aionignore, build_rule, has_build_rule, rendered
from aion_tools.project.origin import Origin, requirement
from aion_tools.project.tools import PIP, PIPENV, POETRY, UV, Tool, read_pyproject, read_text, tool_of, uv_run
from aion_tools.shipped import shipped
from aion_tools.template import stacks

_DEPENDENCIES = {PIP: "requirements.txt", PIPENV: "Pipfile"}
"""Name of the file with a project's dependencies, by tool. For the other tools it is pyproject.toml."""


@dataclass(slots=True)
class ProjectResult:
    """Result of creating a project: the paths of written and of unchanged files, and notes for the author."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Paths of existing files left unchanged."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the author about the project and the next steps."""
    project: Project | None = None
    """The completed project, with its dependency tool. None for a project in a new folder."""


def create(folder: Path, project: Project, *, force: bool = False) -> ProjectResult:
    """Write all files of a project. Raises ProjectError, before writing, if a file exists already.

    `force` overwrites existing files.
    """
    if folder.exists() and not folder.is_dir():
        raise ProjectError(f"{folder} is a file. Choose another name.")
    files = rendered(project)
    existing = [path for path in files if (folder / path).exists()]
    if existing and not force:
        raise ProjectError(
            f"{folder} has {_listed(existing)} already. Nothing was written. `aion new --here` in that folder keeps "
            f"them and adds the missing files; --force overwrites them."
        )
    vendor.write(folder, project.origin)
    for path, text in files.items():
        _put(folder / path, text)
    stacks.write(folder)
    return ProjectResult(written=[*files, *_wheel(project)])


def complete(folder: Path, project: Project, *, agents_yaml: str | None) -> ProjectResult:
    """Write the missing files of a project into the folder, and leave existing files unchanged.

    `agents_yaml` is the text of an aion.yaml for existing agents. If it is None and the folder has no aion.yaml, the
    example agent is written. The rule for `sam build` is appended to an existing Makefile. Raises ProjectError, before
    writing, for an unreadable file and for a template.yaml without aion-lambda's stacks.
    """
    _check_template(folder)
    made, has_example = ProjectResult(), not (agents_yaml or (folder / "aion.yaml").exists())
    tool = tool_of(folder)
    writes_pyproject = tool is UV and not (folder / "pyproject.toml").exists()
    project = replace(project, tool=tool, has_tests=_has_tests(folder, has_example, writes_pyproject))
    if _has_aion(folder, tool) and not (folder / project.origin.wheel).exists():
        # The project has aion-lambda already, from a place of its author's choice.
        project = replace(project, origin=Origin())
    made.project = project
    files = rendered(project)
    if agents_yaml:
        files["aion.yaml"] = agents_yaml
    if not has_example:
        for path in (*AGENT_FILES, ".env.example", "README.md"):
            files.pop(path)
    written = [*files, *_wheel(project)]
    files[".aionignore"] = aionignore(files[".aionignore"], written, lambda path: (folder / path).exists())
    if not writes_pyproject:
        files.pop("pyproject.toml")
        made.notes += _dependency_notes(folder, project)
    if tool is UV and "project" not in read_pyproject(folder):
        made.notes += _setup_notes(folder)
    makefile = folder / "Makefile"
    own_makefile = read_text(makefile) if makefile.exists() else None
    if not (folder / project.origin.wheel).exists():
        vendor.write(folder, project.origin)
        made.written += _wheel(project)
    for path, text in files.items():
        if path == makefile.name and own_makefile is not None:
            _complete_makefile(makefile, own_makefile, made)
        elif (folder / path).exists():
            made.kept.append(path)
        else:
            _put(folder / path, text)
            made.written.append(path)
    stacks.write(folder)
    return made


def lock(folder: Path) -> str:
    """Write the project's uv.lock. Return "" on success, else uv's error output."""
    try:
        # Use the running Python, which is recent enough for the project.
        return uv_run(folder, ["lock", "--quiet", "--python", sys.executable])
    except UvMissing as error:
        return str(error)


def _put(file: Path, text: str) -> None:
    """Write the text to a file, with the same line ends on every system. Create the folder if it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="\n")


def _wheel(project: Project) -> list[str]:
    return [project.origin.wheel] if project.origin.wheel else []


def _check_template(folder: Path) -> None:
    """Raise ProjectError for a template.yaml that does not nest aion-lambda's stacks: SAM reads one template per folder."""
    template = folder / "template.yaml"
    text = read_text(template) if template.is_file() else stacks.FOLDER
    if stacks.FOLDER in text or folder.resolve() == shipped():
        return
    if "AION_CONFIG" in text:
        copies = [*stacks.STACKS.values(), stacks.SCHEMA, "infra/.shipped"]
        existing = " ".join(path for path in copies if (folder / path).exists())
        raise ProjectError(
            f"template.yaml is a copy of aion-lambda's. Now the stacks come with the package, and your template.yaml nests "
            f"them. Delete the copies: git rm -r {existing}. Run `aion init` again. Then move your parameters "
            f"and resources into the new template.yaml; for your edits of a stack, `aion eject` lists the stacks. In "
            f"aion.yaml, the schema is $schema={stacks.FOLDER}/{stacks.SCHEMA}."
        )
    raise ProjectError(
        "template.yaml in this folder is another application's, and `sam` reads one template per folder. Create the "
        "project in a new folder (`aion new NAME`). Or copy the sections Transform, Parameters, Conditions, Resources and "
        "Outputs of the template.yaml that `aion new` writes into this template, and run `aion init` again"
    )


def _complete_makefile(file: Path, text: str, made: ProjectResult) -> None:
    """Append the rule for `sam build` to an existing Makefile that lacks it."""
    if not has_build_rule(text):
        _put(file, f"{text.rstrip()}\n\n{build_rule()}".lstrip())
        made.written.append(file.name)
        made.notes.append("Makefile: the rule for `sam build` was appended; the rest is unchanged.")
        return
    made.kept.append(file.name)
    if "(AION) build" not in text:
        recipe = build_rule().partition("\n")[2].rstrip("\n")
        made.notes.append(f"Makefile has its own rule for `sam build`. aion's rule is:\n{recipe}")


def _has_tests(folder: Path, has_example: bool, writes_pyproject: bool) -> bool:
    """Return True if the completed project has tests, and pytest in a file of declared dependencies."""
    if not (has_example or any((folder / "tests").rglob("test_*.py")) or any(folder.glob("test_*.py"))):
        return False
    files = [folder / name for name in ("pyproject.toml", "requirements.txt", "Pipfile")]
    return writes_pyproject or any("pytest" in read_text(file) for file in files if file.is_file())


def _has_aion(folder: Path, tool: Tool) -> bool:
    """Return True if the file with the project's dependencies names aion-lambda or its wheel."""
    file = folder / _DEPENDENCIES.get(tool, "pyproject.toml")
    return file.is_file() and "aion-lambda" in read_text(file).replace("_", "-")


def _dependency_notes(folder: Path, project: Project) -> list[str]:
    """Return notes for the author on dependencies to add or to move in the project's own files."""
    tool = project.tool
    file = folder / _DEPENDENCIES.get(tool, "pyproject.toml")
    text = read_text(file) if file.is_file() else ""
    notes = []
    if tool is UV and "project" not in read_pyproject(folder):
        notes.append(
            "pyproject.toml has no [project] table for dependencies. Add these lines:\n[project]\n"
            f'name = "{project.name}"\nversion = "0.1.0"\nrequires-python = ">=3.11"\ndependencies = []'
        )
    if not _has_aion(folder, tool):
        notes.append(f"{file.name} has no aion-lambda. Add {_adding(project, text)}")
    is_read = "project" in read_pyproject(folder) or (folder / "requirements.txt").is_file()
    if tool not in (UV, PIP) and not is_read:
        notes.append(
            "`aion build` reads dependencies from `[project]` in pyproject.toml, or from a requirements.txt: move them "
            "there, or export them into a requirements.txt before each build."
        )
    return notes


def _setup_notes(folder: Path) -> list[str]:
    """Return a note for each file of setuptools with dependencies, in a project without a `[project]` table until now."""
    return [
        f"{name} has dependencies (install_requires). aion does not read them, and setuptools ignores them beside `[project]` "
        f"in pyproject.toml. Add each of them: `uv add NAME`. Then delete install_requires from {name}."
        for name in files_with_install_requires(folder)
    ]


def _adding(project: Project, text: str) -> str:
    """Return the shell commands that add aion-lambda to the project's dependencies, or the lines to add."""
    tool, wanted, wheel = project.tool, shlex.quote(project.origin.requirement(project.extras)), project.origin.wheel
    if tool is PIP:
        end = "" if text.endswith("\n") or not text else "echo >> requirements.txt && "
        return f"it: {end}echo {wanted} >> requirements.txt"
    if tool is POETRY and wheel and "[project]" in text:
        return (
            "these lines, because `poetry add` would write the wheel's path on this machine. Then run `poetry lock`.\n"
            f'[project]\ndependencies = ["{requirement(project.extras)}"]\n'
            f'[tool.poetry.dependencies]\naion-lambda = {{ path = "{wheel}" }}\n'
            f'[tool.poetry.group.dev.dependencies]\naion-lambda = {{ path = "{wheel}", extras = ["local"] }}'
        )
    # Omit aion-lambda's source (such as a wheel) from uv's second command: the first has stored it in the project.
    local = "'aion-lambda[local]'" if tool is UV else project.local
    return f"it: {tool.add} {wanted} && {tool.add_tool} {local}"


def _listed(paths: list[str], most: int = 4) -> str:
    more = [f"{len(paths) - most} more"] if len(paths) > most else []
    names = [*paths[:most], *more]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
