"""What goes into the package of a function: which groups of the lock, for which processor, and which code of the project.

Whatever can be wrong with it is told here, before anything is installed.
"""

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from aion_core.packaging import uv
from aion_core.packaging.frameworks import frameworks_of
from aion_core.packaging.imports import imports
from aion_core.packaging.interpreters import interpreter
from aion_core.template.reader import Place, Template

ROOT = Path(__file__).resolve().parents[2]
# In a project that has aion-lambda as a dependency the first two come with the others.
OWN_CODE = ("aion", "aion_core", "handlers")
PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
# Names follow from where a stack is; what is built does not.
NOWHERE = Place(account="000000000000", region="us-east-1", endpoint="", stack_name="build")
# What the code of a function that runs no agent never imports, though a distribution that it needs requires it; what only
# that one needs goes with it. Its boto3 is the runtime's, which is old: its calls are older (docs/decisions/0016).
LEFT_OUT = {
    "PushFunction": ("boto3", "google-api-core", "pyyaml"),
    "SweepFunction": ("boto3", "google-api-core", "pydantic"),
}
# The code that makes a package of a plan: a change of it may change the package.
BUILDERS = ("elf.py", "package_files.py", "packages.py")


class BuildError(Exception):
    """The function cannot be built; the message says what to mend."""


@dataclass(frozen=True)
class Plan:
    """What a package is made from; the same plan gives the same bytes."""

    function: str
    architecture: str
    python: str
    requirements: str
    """The versions of the lock, with their hashes, as pip reads them."""
    sources: tuple[Path, ...]
    """The project's folders and files, each in the root."""
    agents: tuple[Path, ...]
    """The file of each agent, in one of the sources."""
    roots: tuple[Path, ...] = ()
    """The folders in which the agents' code finds the project's own."""

    @property
    def dependencies_digest(self) -> str:
        """A hash of all that the dependencies' part follows from: the plan, and the code and the Python that make it."""
        compiler = _version_of(interpreter(self.python))
        digest = hashlib.sha256(repr((self.architecture, self.python, self.requirements, compiler)).encode())
        return _digest_of([Path(__file__).with_name(name) for name in BUILDERS], digest)

    @property
    def digest(self) -> str:
        """A hash of all that the package follows from."""
        digest = hashlib.sha256(repr((self.function, self.dependencies_digest)).encode())
        return _digest_of([file for source in self.sources for file in code_of(source)], digest)


def plan(
    function: str, *, architecture: str | None = None, python: str | None = None, configs: Sequence[Path] | None = None
) -> Plan:
    """Return what the package of template.yaml's function is made from.

    The processor and the Python are the template's, and the agents those of its AION_CONFIG, unless others are given. Raises
    BuildError, TemplateError or UvMissing.
    """
    template = Template(ROOT / "template.yaml", NOWHERE, {"Architecture": architecture} if architecture else None)
    properties = template.resolved(function, "Runtime", "Architectures")
    (architecture,) = properties.get("Architectures") or ["x86_64"]
    if architecture not in PLATFORMS:
        raise BuildError(f"Lambda has no processor {architecture!r}: AION_ARCHITECTURE may be {' or '.join(PLATFORMS)}")
    python = python or properties["Runtime"].removeprefix("python")
    if not re.fullmatch(r"3\.\d+", python):
        raise BuildError(f"{python!r} is no Python that could be built for: AION_PYTHON is like 3.13")

    named = template.environment(function).get("AION_CONFIG")
    if configs is None or not named:
        configs = [ROOT / named] if named else []
    agents = {file: config.parent for config in configs for file in agent_files(config)}
    frameworks = {framework for file, folder in agents.items() for framework in frameworks_of(file, folder)}
    groups = [_group(function), *(f"{framework}-agents" for framework in sorted(frameworks))]
    groups += ["agents"] if agents else []
    requirements = exported(groups, LEFT_OUT.get(function, ()))
    roots = tuple(dict.fromkeys([*agents.values(), *(file.parent for file in agents)]))
    code = [file for agent in agents for file in (agent, *_imported(agent, roots))]
    sources = tuple(dict.fromkeys(_sources(configs, code)))
    return Plan(function, architecture, python, requirements, sources, tuple(agents), roots)


def code_of(source: Path) -> Iterator[Path]:
    """Yield the files of a folder that are shipped, in one order for all machines; a file is its own."""
    if source.is_file():
        yield source
        return
    for file in sorted(source.rglob("*"), key=lambda file: file.as_posix()):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc":
            yield file


def agent_files(config: Path) -> list[Path]:
    """Return the files of the agents that a config names; raises BuildError."""
    if not config.is_file():
        raise BuildError(f"{config.name} is not there, which AION_CONFIG of template.yaml names")
    try:
        document: Any = yaml.safe_load(config.read_text(encoding="utf-8"))
        paths = [agent["path"] for agent in document["aion"]["agents"].values()]
    except yaml.YAMLError as error:
        raise BuildError(f"{config.name} is no YAML: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BuildError(f"{config.name} names no path for its agents: aion.agents.<id>.path") from error
    return [_agent_file(path, config.parent) for path in paths]


def run(command: Sequence[str]) -> str:
    """Run a program and return what it prints; raises BuildError with what it says where it fails."""
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise BuildError(f"{' '.join(command[:3])} failed:\n{done.stderr.strip()}")
    return done.stdout


def _group(function: str) -> str:
    """Return the dependency group of a function: ApiFunction's is api-function."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", function).lower()


def exported(groups: Sequence[str], without: Sequence[str]) -> str:
    """Return what the lock has for these groups, less some distributions and what only they require; raises BuildError."""
    command = [uv.find(), "export", "--quiet", "--frozen", "--no-header", "--no-annotate", "--project", str(ROOT)]
    command += [*(f"--only-group={group}" for group in groups), *(f"--prune={name}" for name in without)]
    return run([*command, "--no-emit-project"])


def _sources(configs: Sequence[Path], code: Sequence[Path]) -> Iterator[Path]:
    """Yield what a function may import or read; of the agents' code those are the outermost folders that it lies in."""
    yield from (ROOT / name for name in OWN_CODE if (ROOT / name).is_dir())
    outermost = sorted({ROOT / file.relative_to(ROOT).parts[0] for file in code})
    yield from outermost
    yield from (config for config in configs if not any(folder in config.parents for folder in outermost))


def _imported(agent: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the project's files that the agent's code imports."""
    for each in imports(agent, roots):
        yield from (file for file in each.found if ROOT in file.parents)


def _agent_file(path: str, folder: Path) -> Path:
    """Return the file of an agent's `file.py[:name]` or `pkg.module[:name]`."""
    module = str(path).partition(":")[0]
    named = folder / (module if module.endswith(".py") else module.replace(".", "/"))
    found = [each.resolve() for each in (named, named.with_suffix(".py"), named / "__init__.py") if each.is_file()]
    if not found or ROOT not in found[0].parents:
        raise BuildError(f"the agent {path!r} is not in the project's folder")
    return found[0]


def _digest_of(files: Iterable[Path], digest: "hashlib._Hash") -> str:
    for file in files:
        content = file.read_bytes()
        digest.update(f"\n{file.relative_to(ROOT).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:20]


def _version_of(program: str | None) -> str:
    return run([program, "-I", "-c", "import sys; print(sys.version)"]) if program else ""
