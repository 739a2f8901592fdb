"""Dependencies that a project declares, in pyproject.toml, uv.lock, requirements.txt or langgraph.json."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from aion_tools.package.functions import CHOSEN_EXTRAS, DISTRIBUTION
from aion_tools.programs import BuildError, find_uv, run


@dataclass(frozen=True)
class Declared:
    """Dependencies that a project declares, and the files that contain them."""

    folder: Path
    sources: tuple[Path, ...] = ()
    """Files with requirements, either a pyproject.toml or a requirements.txt."""
    lines: tuple[str, ...] = ()
    """All requirements, also those of `sources`."""
    also: tuple[str, ...] = ()
    """Requirements from other places than `sources`: langgraph.json, and the dependency group `agents`."""
    lock: Path | None = None
    """uv.lock of the project, or of the uv workspace that it is a member of. None without a lock."""
    has_group: bool = False
    """True if the pyproject.toml has the dependency group `agents`, which packages contain."""
    requirements: tuple[str, ...] = ()
    """Lines of the requirements.txt and of the files that it includes, if the build reads it."""
    is_aion: bool = False
    """True for aion-lambda's own repository, which packages its example agents."""

    @property
    def described(self) -> str:
        """Names of the files with requirements, as text for the developer."""
        names = [file.name for file in (*self.sources, self.lock) if file]
        if not names and not self.lines:
            return "no files of the project"
        if self.requirements and self.sources[0].name != "requirements.txt":
            names.append("requirements.txt (versions)")
        unpinned = "" if self.lock else " (no uv.lock: dependencies without a version get their newest one)"
        return f"{', '.join(names) or 'langgraph.json'}{unpinned}"

    @property
    def extras(self) -> frozenset[str]:
        """Names of the extras of aion-lambda that the project has chosen, such as otel."""
        parsed = [requirement for line in self.lines if (requirement := parse(line)) is not None]
        named = {extra for each in parsed if canonicalize_name(each.name) == DISTRIBUTION for extra in each.extras}
        return frozenset(CHOSEN_EXTRAS) & named

    @property
    def pins(self) -> list[str]:
        """Requirements of the requirements.txt with an exact version, such as `httpx==0.28.1`."""
        return [bare(line) for line in self.requirements if re.match(r"[A-Za-z0-9][\w.-]*(\[[^]]*\])?==", line)]

    @property
    def options(self) -> list[str]:
        """Lines that name package indexes, of a requirements.txt that is not among `sources`. Poetry exports them."""
        is_source = any(file.name == "requirements.txt" for file in self.sources)
        lines = () if is_source else self.requirements
        return [line for line in lines if re.match(r"-[if]\b|--(?:extra-)?index-url\b|--find-links\b", line)]

    @property
    def hashes(self) -> dict[str, frozenset[str]]:
        """SHA-256 hashes that the requirements.txt permits, by distribution."""
        found = {
            canonicalize_name(requirement.name): frozenset(re.findall(r"--hash=sha256:([0-9a-f]+)", line))
            for line in self.requirements
            if (requirement := parse(line)) is not None
        }
        return {name: hashes for name, hashes in found.items() if hashes}

    @property
    def indexes(self) -> list[str]:
        """Package indexes of the project, as `url` or `name=url`. The URLs may contain passwords."""
        found = []
        for folder in {self.folder, *([self.lock.parent] if self.lock else [])}:
            settings = [read_pyproject(folder).get("tool", {}).get("uv", {}), _table(folder / "uv.toml")]
            for table in [each for each in settings if isinstance(each, dict)]:
                named = [
                    f"{each['name']}={each['url']}" if "name" in each else each["url"]
                    for each in table.get("index", [])
                ]
                found += [*named, *filter(None, [table.get("index-url")]), *table.get("extra-index-url", [])]
        options = (re.match(r"(?:-i|--index-url|--extra-index-url)[\s=]+(\S+)", line) for line in self.requirements)
        named = [*found, *(option[1] for option in options if option)]
        return [each for each in named if "http" in each]  # a local folder has no passwords


def declared(folder: Path, also: Sequence[str] = ()) -> Declared:
    """Read the dependencies of the project in this folder. `also` are those of another file, such as langgraph.json.

    Raises BuildError for an unreadable file, and for dependencies in a place that the build does not read.
    """
    requirements = folder / "requirements.txt"
    project = read_pyproject(folder)
    table, lock = project.get("project"), _lock_of(folder)
    group = [str(line) for line in project.get("dependency-groups", {}).get("agents", []) if isinstance(line, str)]
    others, exported = (*also, *group), tuple(_lines(requirements)) if requirements.is_file() else ()
    if isinstance(table, dict) and canonicalize_name(str(table.get("name", ""))) == DISTRIBUTION:
        return Declared(folder, (), others, others, lock, has_group=bool(group), is_aion=True)
    # Ignore a [project] without dependencies if the folder has a requirements.txt.
    has_dependencies = isinstance(table, dict) and "dependencies" in [*table, *table.get("dynamic", [])]
    if isinstance(table, dict) and (has_dependencies or not exported):
        lines = (*(str(line) for line in table.get("dependencies", [])), *others)
        found = (folder / "pyproject.toml",)
        return Declared(folder, found, lines, others, lock, bool(group), () if lock else exported)
    if requirements.is_file():
        return Declared(folder, (requirements,), (*map(bare, exported), *others), others, requirements=exported)
    _refuse_unread(folder, project)
    return Declared(folder, (), others, others)


def _refuse_unread(folder: Path, project: dict[str, Any]) -> None:
    """Raise BuildError if the folder has dependencies in a file of Poetry 1, Pipenv or setuptools."""
    if "poetry" in project.get("tool", {}):
        raise BuildError(
            "pyproject.toml has its dependencies in [tool.poetry], and uv does not read that table: "
            "run `poetry export --output requirements.txt`, or move them to [project]"
        )
    if (folder / "Pipfile").is_file():
        raise BuildError(
            "the dependencies are in a Pipfile, and uv does not read it: run `pipenv requirements > requirements.txt`"
        )
    if unread := files_with_install_requires(folder):
        raise BuildError(
            f"the dependencies (install_requires) are in {unread[0]}, and a build does not read it: list them in "
            "`[project] dependencies` of a pyproject.toml, or in a requirements.txt"
        )


def files_with_install_requires(folder: Path) -> list[str]:
    """Return the names of setuptools' files with dependencies (`install_requires`). A build does not read these files."""
    # Search the text only, because a setup.py is a program.
    return [
        name
        for name in ("setup.py", "setup.cfg")
        if (folder / name).is_file() and b"install_requires" in (folder / name).read_bytes()
    ]


def check(folder: Path, also: Sequence[str] = ()) -> None:
    """Check the project's files with dependencies as a build does. Raises BuildError or UvMissing."""
    project = declared(folder, also)
    if project.lock:
        run_on_lock(folder, "lock", "--check", "--quiet")


def run_on_lock(folder: Path, *command: str) -> None:
    """Run a command of uv that compares uv.lock with pyproject.toml. Raises BuildError or UvMissing."""
    try:
        run([find_uv(), *command, "--project", str(folder)])
    except BuildError as error:
        if "needs to be updated" in str(error):
            raise BuildError("uv.lock does not match pyproject.toml: run `uv lock`") from error
        raise


def check_python(folder: Path, python: str) -> None:
    """Raise BuildError if the project's requires-python excludes this Python version, such as "3.13"."""
    wanted = read_pyproject(folder).get("project", {}).get("requires-python", "")
    with suppress(InvalidSpecifier):  # uv reports an invalid one
        if not any(SpecifierSet(wanted).contains(f"{python}.{patch}") for patch in range(100)):
            raise BuildError(
                f"pyproject.toml requires Python {wanted}, but the package is for Python {python}. Correct "
                "requires-python, or set Runtime in template.yaml to a permitted version"
            )


def _lock_of(folder: Path) -> Path | None:
    """Return the path of the project's uv.lock or, for a member of a uv workspace, the path of the workspace's."""
    if (folder / "uv.lock").is_file():
        return folder / "uv.lock"
    for root in folder.parents:
        if (root / "uv.lock").is_file():
            # Only uv knows all rules of a workspace's members.
            members = run([find_uv(), "workspace", "list", "--paths"], cwd=root).splitlines()
            return root / "uv.lock" if str(folder) in members else None
    return None


def _lines(file: Path, seen: frozenset[Path] = frozenset()) -> Iterator[str]:
    """Yield the lines of a requirements file, without comments, each with its continuations, and of included files."""
    for line in re.sub(r"\\\s*\n", " ", _text(file)).splitlines():
        line = re.split(r"(?:^|\s)#", line)[0].strip()
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line)
        if not included:
            yield from [line] if line else []
        elif (place := (file.parent / included[1]).resolve()).is_file() and place not in seen | {file.resolve()}:
            yield from _lines(place, seen | {file.resolve()})


def bare(line: str) -> str:
    """Return a line of requirements without its hashes."""
    return re.split(r"\s--hash", line)[0].strip()


def parse(line: str) -> Requirement | None:
    """Parse a line of requirements. Return None for an option, a path or a URL without a name."""
    try:
        return Requirement(bare(line))
    except InvalidRequirement:
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BuildError(
            f"{file} is not UTF-8 ({error}): save it as UTF-8. In PowerShell, write it by `| Out-File -Encoding utf8 {file.name}`"
        ) from error


def _table(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise BuildError(f"{file} is not valid TOML: {error}") from error


def read_pyproject(folder: Path) -> dict[str, Any]:
    """Return the parsed pyproject.toml of the folder, or an empty dict if the file is missing.

    Raises BuildError for an invalid file.
    """
    file = folder / "pyproject.toml"
    content = _table(file)
    project, groups = content.get("project", {}), content.get("dependency-groups", {})
    tables = {"project": project, "dependency-groups": groups, "tool": content.get("tool", {})}
    if wrong := [name for name, table in tables.items() if not isinstance(table, dict)]:
        raise BuildError(f"{file}: {wrong[0]} is not a table")
    lists = {
        "project.dependencies": project.get("dependencies", []),
        "dependency-groups.agents": groups.get("agents", []),
    }
    if wrong := [name for name, found in lists.items() if not isinstance(found, list)]:
        raise BuildError(f"{file}: {wrong[0]} is not a list")
    return content
