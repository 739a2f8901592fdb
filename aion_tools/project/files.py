"""Files of a new project, rendered from the templates beside this module and from aion-lambda's shipped files."""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from aion_core.loading.frameworks import FRAMEWORKS, extras
from aion_tools.project.names import STAGES, stack_name
from aion_tools.project.origin import Origin, requirement
from aion_tools.project.tools import UV, Tool
from aion_tools.shipped import shipped

AGENT_FILES = ("agent.py", "tests/test_agent.py")
"""Paths of the example agent and its test, written only into a project without agents."""

CONTENTS = {
    "agent.py": "the agent",
    "aion.yaml": "its name, skills, configuration and callers",
    "tests/test_agent.py": "its tests, by the official A2A client in the test's process",
    "pyproject.toml": "its dependencies",
    "uv.lock": "their versions",
    ".env.example": "names of its API keys; copy it to .env",
    ".gitignore": "files ignored by git",
    ".aionignore": "files left out of the Lambda packages",
    "template.yaml": "the AWS resources, with infra/",
    "infra/": "nested stacks, aion.yaml's schema for editors, and .shipped/: copies for `aion upgrade`",
    "samconfig.toml": "stack names and parameters of dev and prod",
    "Makefile": "short names for the commands; the rule for `sam build`",
    ".github/workflows/deploy.yml": "tests on pull requests, deployment of main",
    "README.md": "this list, and the next steps",
}
"""Purpose of each file of a new project, in the order of the list printed by `aion new`."""

SCHEMA = "infra/aion-yaml.schema.json"
"""Path of the JSON Schema of aion.yaml, in a project and in the shipped files."""

_TEMPLATES = Path(__file__).parent / "files"

_SOURCES = """
[tool.uv.sources]
# The source of aion-lambda when `aion new` ran. Remove it once your package index has aion-lambda.
aion-lambda = {source}
"""

_ORIGIN_NOTE = """
## aion-lambda's source

`pyproject.toml` takes aion-lambda from `{place}`, its source when this project was created. Other machines and the CI need
a source within their reach: change `[tool.uv.sources]`, or remove it if your package index has aion-lambda; then run `uv lock`.
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A project to be created, or a folder to be completed."""

    name: str
    framework: str
    """Name of the framework of the example agent."""
    origin: Origin
    frameworks: tuple[str, ...] | None = None
    """Names of the frameworks of existing agents. None for a project with the example agent."""
    tool: Tool = UV
    """Dependency tool of the project."""
    has_tests: bool = True
    """True if the project has tests, and pytest among its dependencies."""

    @property
    def requirement(self) -> str:
        """Requirement for aion-lambda, with the extras of the agents' frameworks."""
        frameworks = (self.framework,) if self.frameworks is None else self.frameworks
        return requirement(",".join(framework for framework in frameworks if framework in extras()))

    @property
    def local(self) -> str:
        """Requirement for aion-lambda's tools for development and deployment, quoted for a shell."""
        # Name the source here too, because pip needs it in each requirement of aion-lambda.
        direct = self.origin.direct
        return shlex.quote(f"aion-lambda[local] {direct}" if direct else "aion-lambda[local]")


def rendered(project: Project) -> dict[str, str]:
    """Render all files of a project except uv.lock. Return their texts by path in the project."""
    source = project.origin.source
    values = {
        "name": project.name,
        "title": project.name.replace("-", " ").replace("_", " ").capitalize(),
        "object": OBJECTS[project.framework],
        "requirement": project.requirement,
        "sources": _SOURCES.format(source=source) if source else "",
        "build_rule": build_rule().rstrip("\n"),
        "model": _template(project.framework, "model.md").rstrip("\n"),
        "origin_note": _ORIGIN_NOTE.format(place=project.origin.place) if source else "",
        **_commands(project),
    }
    made = {
        "agent.py": _template(project.framework, "agent.py"),
        "aion.yaml": _template("every", "aion.yaml"),
        "tests/test_agent.py": _template("every", "test_agent.py"),
        "pyproject.toml": _template("every", "pyproject.toml.in"),
        ".env.example": _template(project.framework, "env.example"),
        ".gitignore": _template("every", "gitignore"),
        ".aionignore": _template("every", "aionignore"),
        "Makefile": _template("every", "Makefile"),
        ".github/workflows/deploy.yml": _template("every", "deploy.yml"),
        "README.md": _template("every", "README.md"),
    }
    filled = {path: _filled(text, values) for path, text in made.items()}
    return {**filled, "samconfig.toml": samconfig(project.name), **shipped_files(shipped())}


def _commands(project: Project) -> dict[str, str]:
    """Return the values to fill into Makefile and GitHub workflow, for the project's dependency tool and tests."""
    tool, tests = project.tool, project.has_tests
    run = tool.run.replace("uv", "$(UV)") if tool is UV else tool.run
    install = "".join(f"      - {step}\n".replace("{local}", project.local) for step in tool.steps)
    job = f"  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v5\n{install}"
    return {
        "uv": "UV ?= uv\n\n" if tool is UV else "",
        "test": "test " if tests else "",
        "test_target": f"test: ## Run the tests\n\t@{run}pytest\n\n" if tests else "",
        "make_run": run,
        "purpose": "Test every pull request; deploy `main` to AWS." if tests else "Deploy `main` to AWS.",
        "on_pull_request": "  pull_request:\n" if tests else "",
        "test_job": f"{job}      - run: {tool.run}pytest\n\n" if tests else "",
        "after_test": "    needs: test\n    if: github.event_name == 'push'\n" if tests else "",
        "install": install,
        "run": tool.run,
    }


def contents(*, has_tests: bool) -> dict[str, str]:
    """Return the purpose of each file of a project by path, in the order of the printed list."""
    return CONTENTS if has_tests else {**CONTENTS, ".github/workflows/deploy.yml": "deployment of main"}


def aionignore(text: str, files: Collection[str], there: Callable[[str], bool]) -> str:
    """Return the .aionignore for a folder with existing files. It excludes only files written by `aion init`.

    `text` is the .aionignore of a new project. `files` are the paths of all files of a project. `there` returns True
    for a path that existed before.
    """
    lines: list[str] = []
    for line in text.splitlines():
        path = line.strip("/")
        if not line.startswith("/") or ".new" in line:
            lines.append(line)
        elif not there(path):
            lines += [line] if any(f"{file}/".startswith(f"{path}/") for file in files) else []
        else:
            lines += [f"/{file}" for file in files if file.startswith(f"{path}/") and not there(file)]
    return "\n".join(lines) + "\n"


def shipped_files(folder: Path) -> dict[str, str]:
    """Return the texts of the folder's template.yaml, nested stacks and schema of aion.yaml, by their relative paths."""
    files = [folder / "template.yaml", *sorted((folder / "infra").glob("*.yaml"))]
    texts = {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}
    # Leave out YAML files in infra/ that are no stacks, because a checkout of aion-lambda contains some.
    stacks = {path: text for path, text in texts.items() if "\nResources:" in text}
    return {**stacks, SCHEMA: (folder / SCHEMA).read_text(encoding="utf-8")}


def build_rule() -> str:
    """Return the Makefile's rule for `sam build`, with its marker lines."""
    return _template("every", "build.mk")


def samconfig(name: str) -> str:
    """Return aion-lambda's samconfig.toml with the project's stacks and tags."""
    text = (shipped() / "samconfig.toml").read_text(encoding="utf-8")
    for stage in STAGES:
        text = text.replace(f'stack_name = "aion-{stage}"', f'stack_name = "{stack_name(name, stage)}"')
    # The functions are those of the nested stack.
    text = re.sub(r'"(\w+Function)=', r'"Aion/\1=', text)
    return text.replace('"app=aion"', f'"app={name}"')


def _template(folder: str, name: str) -> str:
    return (_TEMPLATES / folder / name).read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.rstrip("\n") + "\n"


OBJECTS = {name: framework.example for name, framework in FRAMEWORKS.items() if framework.example}
"""Name of the agent object in agent.py, by framework. The first framework is the default."""

_FIRST, _LAST = "# >>> aion", "# <<< aion"
_BLOCK = re.compile(rf"^{re.escape(_FIRST)}.*?^{re.escape(_LAST)}[^\n]*\n?", re.MULTILINE | re.DOTALL)
_OWN_RULE = re.compile(r"^build-(%|[A-Za-z]+Function)\s*:", re.MULTILINE)


def block_of(text: str) -> str | None:
    """Return the block of a Makefile marked as aion's, with its marker lines, or None if there is no such block."""
    found = _BLOCK.search(text)
    return found[0].rstrip("\n") + "\n" if found else None


def has_own_rule(text: str) -> bool:
    """Return True if the Makefile's text has the author's own rule for `sam build`, outside of aion's block."""
    return _OWN_RULE.search(_BLOCK.sub("", text)) is not None


def with_block(text: str, block: str) -> str:
    """Return the Makefile's text with this block in place of aion's block, or at the end if it has no such block."""
    if block_of(text) is not None:
        return _BLOCK.sub(lambda _: block, text, count=1)
    before = text.rstrip("\n")
    return f"{before}\n\n{block}" if before else block
