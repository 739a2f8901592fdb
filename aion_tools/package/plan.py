"""Plan of a function's Lambda package, with its requirements, processor, files and agents.

Planning reports problems before the build installs anything.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import aion_core
from aion_core.errors import ConfigurationError
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.discover import discover
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.importing.places import agent_files, import_roots
from aion_tools.package.aion_yaml import as_yaml
from aion_tools.package.cache import cache
from aion_tools.package.imports import frameworks_of, loaded_files
from aion_tools.package.metadata import distribution_metadata
from aion_tools.package.programs import BuildError, compiler_version, interpreter
from aion_tools.package.requirements import (
    FUNCTION_EXTRAS,
    PLATFORMS,
    UNUSED,
    Wanted,
    check_python,
    installed_frameworks,
    resolved,
    wanted,
)
from aion_tools.package.selection import Selection, select
from aion_tools.shipped import shipped
from aion_tools.template.reader import Place, project_template

# Placeholders to resolve references in the template. A package does not depend on the account or the region.
BUILD_PLACE = Place(account="000000000000", region="us-east-1", endpoint="", stack_name="build")
# Modules of the build. Their code is part of the package's hash, because a change may alter the package.
BUILDERS = ("elf.py", "files.py", "packages.py", "parts.py", "zip_writer.py")
RESERVED = ("aion", "aion_core", "aion_tools", "handlers")
"""Names in the top folder of a Lambda package reserved for aion-lambda's own code."""


@dataclass(frozen=True)
class PackagedAgent:
    """An agent contained in a Lambda package."""

    id: str
    path: str
    """Path of the agent as written in aion.yaml."""
    file: Path


@dataclass(frozen=True)
class PackagePlan:
    """Inputs of a function's Lambda package. Equal plans give packages with equal bytes."""

    function: str
    architecture: str
    python: str
    requirements: str
    """Dependencies with exact versions and hashes, and options naming indexes, in the format of requirements.txt."""
    files: tuple[tuple[str, Path], ...]
    """Pairs of a path in the package and the file to copy there."""
    agents: tuple[PackagedAgent, ...] = ()
    folder: Path | None = None
    """Folder of the project. Its files keep their relative paths in the package."""
    roots: tuple[Path, ...] = ()
    """Folders that contain the project's modules."""
    selection: Selection | None = None
    """Selection of the project's files. None for a function without agents."""

    @property
    def dependencies_digest(self) -> str:
        """Hash of the requirements, the processor, the Python version, and the code of the build."""
        program = interpreter(self.python)
        compiler = compiler_version(program) if program else ""
        digest = hashlib.sha256(repr((self.architecture, self.python, self.requirements, compiler)).encode())
        builders = [(name, Path(__file__).with_name(name)) for name in BUILDERS]
        return _digest_of(builders, digest)

    @property
    def digest(self) -> str:
        """Hash of all inputs of the package, including the files' contents."""
        digest = hashlib.sha256(repr((self.function, self.dependencies_digest)).encode())
        return _digest_of(self.files, digest)

    @property
    def own_files(self) -> tuple[tuple[str, Path], ...]:
        """The files of aion's own code among `files`, as pairs of the path in the package and the file."""
        return tuple(each for each in self.files if _is_reserved(each[0]))

    @property
    def project_files(self) -> tuple[tuple[str, Path], ...]:
        """The project's own files among `files`, as pairs of the path in the package and the file."""
        return tuple(each for each in self.files if not _is_reserved(each[0]))

    def place(self, path: Path) -> Path:
        """Return the path of a project's file or folder within the package, relative to the package's top folder."""
        assert self.folder is not None  # noqa: S101  # only plans without project files lack it
        return path.relative_to(self.folder)


def plan(
    function: str,
    *,
    folder: Path | None = None,
    architecture: str | None = None,
    python: str | None = None,
    configs: Sequence[Path] | None = None,
) -> PackagePlan:
    """Return the package plan of a function for the project in this folder, by default the current folder.

    Processor, Python version and AION_CONFIG come from the arguments, else from the project's template.yaml, else from
    the template shipped with aion-lambda. Raises BuildError, TemplateError or UvMissing.
    """
    folder = (folder or Path.cwd()).resolve()
    template = project_template(folder, BUILD_PLACE, {"Architecture": architecture} if architecture else None)
    properties = template.resolved(function, "Runtime", "Architectures")
    (architecture,) = properties.get("Architectures") or ["x86_64"]
    if architecture not in PLATFORMS:
        raise BuildError(f"Lambda has no processor {architecture!r}: set AION_ARCHITECTURE to {' or '.join(PLATFORMS)}")
    python = python or properties["Runtime"].removeprefix("python")
    if not re.fullmatch(r"3\.\d+", python):
        raise BuildError(f"{python!r} is not a Python version: set AION_PYTHON to, for example, 3.13")
    if function not in FUNCTION_EXTRAS:
        raise BuildError(
            f"{function} is not a function of aion, so it has no package; the functions are {', '.join(FUNCTION_EXTRAS)}"
        )

    named = template.environment(function).get("AION_CONFIG")
    if not named:
        project = wanted(folder)
        requirements = resolved(
            [*FUNCTION_EXTRAS[function], *sorted(project.extras)],
            Wanted(lock=project.lock, folder=project.folder, options=project.options),
            without=UNUSED.get(function, ()),
            architecture=architecture,
            python=python,
            folder=folder,
        )
        return PackagePlan(function, architecture, python, requirements, tuple(own_files()))

    found = agents_of(folder, [folder / named] if configs is None else configs)
    # Check the syntax first, because a file with a syntax error has no known imports, and imports name the frameworks.
    loaded = {file for agent in found.agents for file in loaded_files(agent.file, found.roots)}
    _check_syntax(loaded, folder, python)
    project = wanted(folder, found.requirements)
    check_python(folder, python)
    installed = installed_frameworks(project)
    frameworks = {each for agent in found.agents for each in frameworks_of(agent.file, found.roots, installed)}
    requirements = resolved(
        [*FUNCTION_EXTRAS[function], *sorted(frameworks), *sorted(project.extras)],
        project,
        without=(),
        architecture=architecture,
        python=python,
        folder=folder,
    )
    selection = select(folder)
    if selection.private_keys:
        raise BuildError(
            f"{', '.join(selection.private_keys)} looks like a private key or an AWS secret access key. Do not put keys "
            "into a package: move it out of the folder or add it to .aionignore. Agents get keys from `secrets` in aion.yaml"
        )
    needed = [*found.configs, *(agent.file for agent in found.agents), *sorted(loaded)]
    files = [*own_files(), *_project_files(selection, folder, needed, is_aion=project.is_aion)]
    files += [(named, generated) for generated in found.generated]
    if not project.is_aion:
        files += [(place, _generated(text, Path(place).name)) for place, text in distribution_metadata(folder)]
    return PackagePlan(
        function, architecture, python, requirements, tuple(files), found.agents, folder, found.roots, selection
    )


@dataclass(frozen=True)
class ProjectAgents:
    """Agents of a project, with their module folders, configuration files and requirements."""

    agents: tuple[PackagedAgent, ...]
    roots: tuple[Path, ...]
    """Folders with the agents' modules. The server uses the same folders."""
    configs: tuple[Path, ...] = ()
    """Paths of the project's own configuration files."""
    generated: tuple[Path, ...] = ()
    """Path of the generated aion.yaml, for a project without an aion.yaml."""
    requirements: tuple[str, ...] = ()
    """Requirements listed in langgraph.json."""


def agents_of(folder: Path, configs: Sequence[Path]) -> ProjectAgents:
    """Return the agents declared in the config files or, if the only config file is missing, found in the folder.

    Raises BuildError.
    """
    try:
        if len(configs) == 1 and not configs[0].is_file():
            return _discovered(folder, configs[0])
        agents: list[PackagedAgent] = []
        roots: list[Path] = []
        for config in configs:
            _check_config_is_built(config)
            declared = read_deployment_config(config)
            paths = {name: agent.path for name, agent in declared.agents.items()}
            found, starts = _located(folder, paths, import_roots(declared.folder, declared.roots))
            agents += found
            roots += starts
        return ProjectAgents(tuple(agents), tuple(dict.fromkeys(roots)), tuple(configs))
    except ConfigurationError as error:
        raise BuildError(str(error)) from error


def _discovered(folder: Path, config: Path) -> ProjectAgents:
    found = discover(folder)
    if found.folder != folder:
        raise BuildError(f"{folder.name} is a Python package: build in its parent folder, {found.folder}")
    paths = {name: agent.path for name, agent in found.agents.items()}
    agents, roots = _located(folder, paths, import_roots(found.folder, found.roots))
    generated = _generated(as_yaml(found), config.name)
    return ProjectAgents(tuple(agents), tuple(roots), (), (generated,), tuple(found.requirements))


def _generated(text: str, name: str) -> Path:
    """Write the text into a file of this name in the cache, and return its path."""
    file = cache() / "generated" / hashlib.sha256(text.encode()).hexdigest()[:20] / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _located(folder: Path, paths: Mapping[str, str], roots: Sequence[Path]) -> tuple[list[PackagedAgent], list[Path]]:
    """Find the file of each agent (given as a path by agent id), and the folders with the agents' modules.

    Raises BuildError for an agent with an absolute path, or without a file in the project's folder.
    """
    agents = []
    for agent_id, path in paths.items():
        if Path(path).is_absolute():
            raise BuildError(f"the path {path!r} of an agent is absolute; write it relative to aion.yaml's folder")
        files = [file for file in agent_files(path.partition(":")[0], roots) if file.is_file()]
        if not files or folder not in files[0].parents:
            reason = "is outside of the project's folder" if files else "does not exist in the project's folder"
            raise BuildError(
                f"the agent {path!r} {reason}, {folder}: correct its path in aion.yaml or langgraph.json, or move its "
                "file there"
            )
        agents.append(PackagedAgent(agent_id, path, files[0]))
    starts = [root.resolve() for root in roots]
    if outside := [root for root in starts if root != folder and folder not in root.parents]:
        raise BuildError(f"aion.python_path has {outside[0]}, outside of the project's folder, {folder}")
    for agent in agents:
        starts.append(agent.file.parent)
        packages = list(takewhile(lambda parent: (parent / "__init__.py").is_file(), agent.file.parents))
        if packages and folder in packages[-1].parents:
            starts.append(packages[-1].parent)
    return agents, list(dict.fromkeys(starts))


def _check_syntax(loaded: Iterable[Path], folder: Path, python: str) -> None:
    """Raise BuildError for a syntax error in the code of the agents, by Lambda's Python version if this machine has it."""
    files = sorted(map(str, loaded))
    program = interpreter(python)
    ran = subprocess.run([program or sys.executable, "-I", "-c", _COMPILER, *files], capture_output=True, text=True)  # noqa: S603 - fixed code
    if ran.returncode:
        file, _, text = ran.stderr.partition("\n")
        version = python if program else f"{sys.version_info[0]}.{sys.version_info[1]}"
        remedy = "" if program else f" (for newer syntax, run `uv python install {python}`)"
        raise BuildError(f"{os.path.relpath(file, folder)} is not valid Python {version}{remedy}:\n{text.rstrip()}")


_COMPILER = """import sys, traceback, warnings
warnings.simplefilter("ignore")
for name in sys.argv[1:]:
    try:
        compile(open(name, "rb").read(), name, "exec")
    except (SyntaxError, ValueError) as error:
        sys.exit(f"{name}\\n{''.join(traceback.format_exception_only(error))}")
"""
"""Program that compiles files. For the first invalid file it prints the name, the line and the error, and exits."""


def own_files() -> Iterator[tuple[str, Path]]:
    """Yield pairs of a path in the package and a file of the installed aion-lambda, for files needed on Lambda."""
    code = Path(aion_core.__file__).resolve().parent
    yield from _code(code, "aion_core")
    for name in (*(name for name, framework in FRAMEWORKS.items() if framework.library), "shared"):
        yield from _code(code.parent / "aion" / name, f"aion/{name}")
    yield from _code(shipped() / "handlers", "handlers")


def _check_config_is_built(config: Path) -> None:
    """Raise BuildError if AION_CONFIG names another config, because the developer has probably tested that config."""
    given = os.environ.get("AION_CONFIG")
    if given and Path(given).expanduser().resolve() != config.resolve():
        raise BuildError(
            f"AION_CONFIG is {given}, but this build uses {config}: build in the folder of AION_CONFIG, or unset it"
        )


def _project_files(
    selection: Selection, folder: Path, needed: Sequence[Path], *, is_aion: bool
) -> Iterator[tuple[str, Path]]:
    """Yield pairs of a path in the package and a selected file of the project.

    Raises BuildError if a file would replace one of aion's files, or if a needed file is excluded.
    """
    chosen = set(selection.files)
    for file in needed:
        if file not in chosen and file.resolve() not in chosen:
            place = file.relative_to(folder).as_posix()
            reason = "".join(f": {each.reason}" for each in selection.left_out if f"{place}/".startswith(each.path))
            raise BuildError(f"{place} is excluded from the package{reason}, but an agent needs it")
    for file in selection.files:
        place = file.relative_to(folder).as_posix()
        if not _is_reserved(place):
            yield place, file
        elif not is_aion:
            first = place.split("/")[0].removesuffix(".py")
            raise BuildError(
                f"rename {place}, or add it to .aionignore: the name {first} is reserved for aion's own code in a package"
            )


def _is_reserved(place: str) -> bool:
    return place.split("/")[0].removesuffix(".py") in RESERVED


def _code(folder: Path, place: str, without: Iterable[str] = ()) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*"), key=lambda file: file.as_posix()):
        inside = file.relative_to(folder)
        if not file.is_file() or "__pycache__" in inside.parts or file.suffix == ".pyc":
            continue
        if inside.parts[0].removesuffix(".py") not in without:
            yield f"{place}/{inside.as_posix()}", file


def _digest_of(files: Iterable[tuple[str, Path]], digest: "hashlib._Hash") -> str:
    for place, file in files:
        content = file.read_bytes()
        digest.update(f"\n{place} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:20]
