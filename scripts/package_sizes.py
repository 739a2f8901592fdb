"""`make package-sizes`: build ApiFunction of six realistic projects, and compare it with a plain installation by uv.

uv installs the same distributions for the same processor and Python version, with their .pyc files. The script fails if a package
is larger. The first build of a project has an empty package cache; uv's own cache is filled.
"""

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from aion_tools.package.build import Build
from aion_tools.package.functions import Target
from aion_tools.package.package import add_to_zip, files_in
from aion_tools.programs import BuildError, find_uv, interpreter, run
from aion_tools.shipped import shipped

FUNCTION = "ApiFunction"
GRAPH = "from langgraph.graph import StateGraph\nimport {}\ngraph = StateGraph(dict)\n"
ADK = "from google.adk.agents import Agent\nimport {}\nroot_agent = Agent(name='mine', model='gemini-flash-latest')\n"
EXECUTOR = """from a2a.server.agent_execution import AgentExecutor
class Mine(AgentExecutor):
    async def execute(self, context, queue): ...
    async def cancel(self, context, queue): ...
agent = Mine()
"""
CLOUD = ("google-cloud-bigquery", "google-cloud-firestore", "google-cloud-storage", "litellm")
PROJECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "LangGraph with two providers": (
        GRAPH.format("langchain_anthropic, langchain_openai, langchain_tavily"),
        ("aion-lambda[langgraph]", "langchain-anthropic", "langchain-openai", "langchain-tavily"),
    ),
    "deepagents": (GRAPH.format("deepagents"), ("aion-lambda[langgraph]", "deepagents")),
    "LangGraph, pandas and numpy": (GRAPH.format("numpy, pandas"), ("aion-lambda[langgraph]", "numpy", "pandas")),
    "ADK, google-cloud and litellm": (
        ADK.format("google.cloud.bigquery, google.cloud.firestore, google.cloud.storage, litellm"),
        ("aion-lambda[adk]", *CLOUD),
    ),
    "ADK": (ADK.format("google.adk"), ("aion-lambda[adk]",)),
    "executor": (EXECUTOR, ("aion-lambda[api]",)),
}
"""Code of the agent, and requirements of the project, by the project's name."""


@dataclass(frozen=True)
class Cost:
    """Size of a package, and the times of the program that made it."""

    unpacked: float
    """MB."""
    zipped: float
    seconds: float
    cpu: float
    """Seconds of processor time, also of the program's children."""

    def __str__(self) -> str:
        return f"{self.unpacked:9.1f} MB{self.zipped:9.1f} MB{self.seconds:9.1f} s{self.cpu:9.1f} s"


def write(name: str, folder: Path, aion: Path) -> None:
    """Write and lock a project that requires the aion-lambda in a folder. Raises BuildError."""
    agent, requirements = PROJECTS[name]
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "sized"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = {list(requirements)}\n'
        f'[tool.uv.sources]\naion-lambda = {{ path = "{aion}" }}\n'
    )
    (folder / "agent.py").write_text(agent)
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    run([find_uv(), "lock", "--quiet", "--project", str(folder)])


def cost(command: list[str], project: Path, made: Path, cache: Path) -> Cost:
    """Run a program in the project that writes the package `made`, and return its cost. Raises BuildError."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(command, cwd=project, more={"AION_PACKAGE_CACHE": str(cache)})
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    archive = cache / "package.zip"
    archive.unlink(missing_ok=True)  # of the other command
    add_to_zip(archive, files_in(made))
    unpacked = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
    return Cost(unpacked / 1e6, archive.stat().st_size / 1e6, seconds, cpu)


def uv_command(package: Path, into: Path, target: Target) -> list[str]:
    """Return the command that installs the distributions of a package into a folder, compiled."""
    found = [f"{each.name}=={each.version}" for each in distributions(path=[str(package)]) if each.name != "sized"]
    command = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", str(into), "--compile-bytecode"]
    return [*command, "--python", interpreter(target.python) or sys.executable, *target.options, *found]


def is_smaller(name: str, scratch: Path) -> bool:
    """Print the costs of a project. Return True if its package is no larger than uv's installation."""
    project, aion = scratch / "project", str(Path(sys.executable).with_name("aion"))
    write(name, project, shipped())
    target = Build(project, [FUNCTION]).target
    print(f"{name}, {', Python '.join(target)}", flush=True)
    made, packages = {kind: scratch / kind.replace(" ", "-") for kind in ("cold", "warm", "uv")}, scratch / "packages"
    build = [aion, "build", FUNCTION, "--to"]
    costs = {kind: cost([*build, str(made[kind])], project, made[kind], packages) for kind in ("cold", "warm")}
    costs["uv"] = cost(uv_command(made["cold"], made["uv"], target), scratch, made["uv"], packages)
    for kind, found in costs.items():
        print(f"  {kind:<6}{found}", flush=True)
    return costs["cold"].unpacked <= costs["uv"].unpacked


def main() -> int:
    """Print the costs of all projects. Return 1 if a package is larger than uv's installation."""
    larger = []
    print(f"{'':<8}{'unpacked':>12}{'zipped':>12}{'wall':>11}{'CPU':>11}")
    for name in PROJECTS:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                larger += [] if is_smaller(name, Path(scratch)) else [name]
            except BuildError as error:
                print(f"package-sizes: {name}: {error}", file=sys.stderr)
                return 1
    if larger:
        print(f"package-sizes: larger than uv's installation: {', '.join(larger)}", file=sys.stderr)
    return 1 if larger else 0


if __name__ == "__main__":
    sys.exit(main())
