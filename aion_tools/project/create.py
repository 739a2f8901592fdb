"""Creation of a project: all files in a new folder, or the missing files in an existing folder."""

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from aion_tools.package.declared import files_with_install_requires
from aion_tools.programs import UvMissing
from aion_tools.project import ProjectError, base
from aion_tools.project.files import (
    AGENT_FILES,
    Project,
    aionignore,
    block_of,
    build_rule,
    has_own_rule,
    rendered,
    shipped_files,
    with_block,
)
from aion_tools.project.tools import PIP, PIPENV, UV, read_pyproject, read_text, tool_of, uv_run
from aion_tools.shipped import shipped


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
    for path, text in files.items():
        base.put(folder / path, text)
    base.write(folder, {**shipped_files(shipped()), base.RULE: build_rule()})
    return ProjectResult(written=[*files])


def complete(folder: Path, project: Project, *, agents_yaml: str | None) -> ProjectResult:
    """Write the missing files of a project into the folder, and leave existing files unchanged.

    `agents_yaml` is the text of an aion.yaml for existing agents. If it is None and the folder has no aion.yaml, the
    example agent is written. The rule for `sam build` is appended to an existing Makefile. Raises ProjectError, before
    writing, for an unreadable file and for a template.yaml of another project.
    """
    made, has_example = ProjectResult(), not (agents_yaml or (folder / "aion.yaml").exists())
    tool = tool_of(folder)
    writes_pyproject = tool is UV and not (folder / "pyproject.toml").exists()
    project = replace(project, tool=tool, has_tests=_has_tests(folder, has_example, writes_pyproject))
    made.project = project
    files = rendered(project)
    if agents_yaml:
        files["aion.yaml"] = agents_yaml
    if not has_example:
        for path in (*AGENT_FILES, "README.md"):
            files.pop(path)
    files[".aionignore"] = aionignore(files[".aionignore"], [*files], lambda path: (folder / path).exists())
    if not writes_pyproject:
        files.pop("pyproject.toml")
        made.notes += _dependency_notes(folder, project)
    if tool is UV and "project" not in read_pyproject(folder):
        made.notes += _setup_notes(folder)
    recorded = {**base.read(folder).files}
    is_foreign = _is_foreign(folder / "template.yaml")
    if is_foreign:
        raise ProjectError(
            "template.yaml in this folder is not an aion template, and `sam` reads one template per folder. Move it, or "
            "create the project in a new folder: `aion new NAME`."
        )
    makefile = folder / "Makefile"
    own_makefile = read_text(makefile) if makefile.exists() else None
    for path, text in files.items():
        if path == "Makefile":
            _complete_makefile(makefile, own_makefile, text, made, recorded)
        elif (folder / path).exists():
            made.kept.append(path)
        else:
            base.put(folder / path, text)
            made.written.append(path)
            if path in shipped_files(shipped()):
                recorded[path] = text
    base.write(folder, recorded)
    return made


def lock(folder: Path) -> str:
    """Write the project's uv.lock. Return "" on success, else uv's error output."""
    try:
        # Use the running Python, which is recent enough for the project.
        return uv_run(folder, ["lock", "--quiet", "--python", sys.executable])
    except UvMissing as error:
        return str(error)


def _complete_makefile(file: Path, text: str | None, whole: str, made: ProjectResult, recorded: dict[str, str]) -> None:
    """Write the Makefile, or append the rule for `sam build` to an existing Makefile whose `text` lacks this rule."""
    if text is None:
        base.put(file, whole)
        made.written.append(file.name)
    else:
        if block_of(text) is not None:
            made.kept.append(file.name)
            return
        if has_own_rule(text):
            made.kept.append(file.name)
            recipe = "\n".join(line for line in build_rule().splitlines() if not line.startswith("#"))
            made.notes.append(f"Makefile has its own rule for `sam build`. aion's rule is:\n{recipe}")
            return
        base.put(file, with_block(text, build_rule()))
        made.written.append(file.name)
        made.notes.append("Makefile: the rule for `sam build` was appended; the rest is unchanged.")
    recorded[base.RULE] = build_rule()


def _has_tests(folder: Path, has_example: bool, writes_pyproject: bool) -> bool:
    """Return True if the completed project has tests, and pytest in a file of declared dependencies."""
    if not (has_example or any((folder / "tests").rglob("test_*.py")) or any(folder.glob("test_*.py"))):
        return False
    files = [folder / name for name in ("pyproject.toml", "requirements.txt", "Pipfile")]
    return writes_pyproject or any("pytest" in read_text(file) for file in files if file.is_file())


def _dependency_notes(folder: Path, project: Project) -> list[str]:
    """Return notes for the author on dependencies to add or to move in the project's own files."""
    tool = project.tool
    file = folder / {PIP: "requirements.txt", PIPENV: "Pipfile"}.get(tool, "pyproject.toml")
    text = read_text(file) if file.is_file() else ""
    notes = []
    if tool is UV and "project" not in read_pyproject(folder):
        notes.append(
            "pyproject.toml has no [project] table for dependencies. Add these lines:\n[project]\n"
            f'name = "{project.name}"\nversion = "0.1.0"\nrequires-python = ">=3.11"\ndependencies = []'
        )
    if "aion-lambda" not in text:
        notes.append(f"{file.name} has no aion-lambda. Add it: {_adding(project, text)}")
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
    """Return the shell commands that add aion-lambda to the project's dependencies."""
    tool, wanted = project.tool, shlex.quote(_named(project))
    if tool is PIP:
        end = "" if text.endswith("\n") or not text else "echo >> requirements.txt && "
        return f"{end}echo {wanted} >> requirements.txt"
    # Omit aion-lambda's source (such as a folder) from uv's second command: the first has stored it in the project.
    local = "'aion-lambda[local]'" if tool is UV else project.local
    return f"{tool.add} {wanted} && {tool.add_tool} {local}"


def _named(project: Project) -> str:
    """Return the requirement for aion-lambda, with its source if it does not come from a package index."""
    direct = project.origin.direct
    return f"{project.requirement.partition('>')[0]} {direct}" if direct else project.requirement


def _is_foreign(template: Path) -> bool:
    return template.is_file() and "AION_CONFIG" not in read_text(template)


def _listed(paths: list[str], most: int = 4) -> str:
    more = [f"{len(paths) - most} more"] if len(paths) > most else []
    names = [*paths[:most], *more]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
