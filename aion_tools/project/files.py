"""Files of a new project, rendered from the templates beside this module and from aion-lambda's samconfig.toml."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from aion_core.loading.frameworks import FRAMEWORKS, extras
from aion_tools.programs import machine_architecture
from aion_tools.project.names import STAGES, stack_name
from aion_tools.project.origin import Origin, requirement
from aion_tools.project.tools import UV, Tool
from aion_tools.shipped import shipped
from aion_tools.template import stacks

AGENT_FILES = ("agent.py", "tests/test_agent.py")
"""Paths of the example agent and its test, written only into a project without agents."""

CONTENTS = {
    "agent.py": "the agent",
    "aion.yaml": "its name, skills, secrets and callers",
    "tests/test_agent.py": "its test",
    "pyproject.toml": "its dependencies",
    "uv.lock": "their versions",
    "vendor/": "the wheel of aion-lambda",
    ".env.example": "how to use a real model",
    ".gitignore": "files ignored by git",
    ".aionignore": "files left out of the Lambda packages",
    "template.yaml": "the AWS resources, with the stacks in .aion/stacks/",
    "samconfig.toml": "region, stack names and parameters of dev and prod",
    "Makefile": "the rule for `sam build`",
    ".github/workflows/deploy.yml": "tests on pull requests, deployment of main",
    "README.md": "the next steps",
}
"""Purpose of each file of a new project, in the order of the list printed by `aion new`."""

SCHEMA = f"{stacks.FOLDER}/{stacks.SCHEMA}"
"""Path of the JSON Schema of aion.yaml in a project."""

_TEMPLATES = Path(__file__).parent / "files"
_LIBRARIES = {"langgraph": ["langchain>=1,<2"]}
"""Requirements of an example agent besides aion-lambda."""

_SOURCES = """
[tool.uv.sources]
# {reason} Once your package index has aion-lambda, remove this table, and run `uv lock`.
aion-lambda = {source}
"""
_VENDORED = "No package index has this aion-lambda, so its wheel is in vendor/."
_ELSEWHERE = "The source of aion-lambda when `aion new` ran."


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
    region: str = ""
    """The developer's AWS region, or "" for that of aion-lambda's samconfig.toml."""

    @property
    def extras(self) -> str:
        """Extras of aion-lambda for the agents' frameworks."""
        frameworks = (self.framework,) if self.frameworks is None else self.frameworks
        return ",".join(framework for framework in frameworks if framework in extras()) or "api"

    @property
    def local(self) -> str:
        """Requirement for aion-lambda's tools for development and deployment, quoted for a shell."""
        # Name the source here too, because pip needs it in each requirement of aion-lambda.
        return shlex.quote(self.origin.requirement("local"))


def rendered(project: Project) -> dict[str, str]:
    """Render all files of a project except uv.lock and the wheel. Return their texts by path in the project."""
    origin = project.origin
    libraries = [] if project.frameworks is not None else _LIBRARIES.get(project.framework, [])
    sources = _SOURCES.format(reason=_VENDORED if origin.wheel else _ELSEWHERE, source=origin.source)
    values = {
        "name": project.name,
        "title": project.name.replace("-", " ").replace("_", " ").capitalize(),
        "object": OBJECTS[project.framework],
        "schema": SCHEMA,
        "api_key": "GOOGLE_API_KEY: google-key" if project.framework == "adk" else "OPENAI_API_KEY: openai-key",
        "architecture": machine_architecture(),
        "dependencies": json.dumps([requirement(project.extras), *libraries]),
        "sources": sources if origin.source else "",
        **_workflow(project),
    }
    made = {
        "agent.py": _template(project.framework, "agent.py"),
        "aion.yaml": _template("every", "aion.yaml"),
        "tests/test_agent.py": _template("every", "test_agent.py"),
        "pyproject.toml": _template("every", "pyproject.toml.in"),
        ".env.example": _template(project.framework, "env.example"),
        ".gitignore": _template("every", "gitignore"),
        ".aionignore": _template("every", "aionignore"),
        "template.yaml": _template("every", "template.yaml"),
        "Makefile": build_rule(),
        ".github/workflows/deploy.yml": _template("every", "deploy.yml"),
        "README.md": _template("every", "README.md"),
    }
    return {
        **{path: _filled(text, values) for path, text in made.items()},
        "samconfig.toml": samconfig(project.name, project.region),
    }


def _workflow(project: Project) -> dict[str, str]:
    """Return the values to fill into the GitHub workflow, for the project's dependency tool and tests."""
    tool, tests = project.tool, project.has_tests
    install = "".join(f"      - {step}\n".replace("{local}", project.local) for step in tool.steps)
    job = f"  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v5\n{install}"
    return {
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
        if not line.startswith("/"):
            lines.append(line)
        elif not there(path):
            lines += [line] if any(f"{file}/".startswith(f"{path}/") for file in files) else []
        else:
            lines += [f"/{file}" for file in files if file.startswith(f"{path}/") and not there(file)]
    return "\n".join(lines) + "\n"


def build_rule() -> str:
    """Return the Makefile's rule for `sam build`."""
    return _template("every", "Makefile")


def has_build_rule(makefile: str) -> bool:
    """Return True if the Makefile's text has a rule for `sam build`."""
    return re.search(r"^build-(%|[A-Za-z]+Function)\s*:", makefile, re.MULTILINE) is not None


def samconfig(name: str, region: str = "") -> str:
    """Return aion-lambda's samconfig.toml with the project's stacks and tags, and with this region if it is given."""
    text = (shipped() / "samconfig.toml").read_text(encoding="utf-8")
    for stage in STAGES:
        text = text.replace(f'stack_name = "aion-{stage}"', f'stack_name = "{stack_name(name, stage)}"')
    # The functions are those of the nested stack.
    text = re.sub(r'"(\w+Function)=', r'"Aion/\1=', text)
    if region:
        text = re.sub(r'^region = ".*"$', lambda _: f"region = {json.dumps(region)}", text, flags=re.MULTILINE)
    return text.replace('"app=aion"', f'"app={name}"')


def _template(folder: str, name: str) -> str:
    return (_TEMPLATES / folder / name).read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.rstrip("\n") + "\n"


OBJECTS = {name: framework.example for name, framework in FRAMEWORKS.items() if framework.example}
"""Name of the agent object in agent.py, by framework. The first framework is the default."""
