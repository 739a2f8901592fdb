"""Requirements of a Lambda package, from aion's extras and the project, with exact versions and hashes."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from aion_core.loading.frameworks import FRAMEWORKS, extras
from aion_tools.package.cache import cache
from aion_tools.package.programs import BuildError, find_uv, interpreter, run, uv_version

DISTRIBUTION = "aion-lambda"
PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
FUNCTION_EXTRAS = {
    "ApiFunction": ("api",),
    "TaskFunction": ("queue",),
    "PushFunction": ("push", "queue"),
    "SweepFunction": ("aws",),
}
"""Names of the extras of aion-lambda installed for each function of the template."""
# Transitive dependencies that these functions never import. They are left out of the packages, with their own
# dependencies. Instead of this boto3, the functions use the older boto3 of the Lambda runtime (docs/decisions/0016).
UNUSED = {
    "PushFunction": ("boto3", "click", "google-api-core", "pyyaml"),
    "SweepFunction": ("boto3", "click", "google-api-core", "pydantic"),
}
TESTED = Path(__file__).with_name("tested.txt")
"""File with the versions tested with aion-lambda. They apply to distributions missing in the project's lock."""


@dataclass(frozen=True)
class Wanted:
    """Requirements of a project, and the files that contain them."""

    sources: tuple[Path, ...] = ()
    """Files with requirements, either a pyproject.toml or a requirements.txt."""
    lines: tuple[str, ...] = ()
    """Requirements from other sources, such as langgraph.json."""
    extras: frozenset[str] = frozenset()
    """Names of aion-lambda's extras that the project's requirements contain, such as otel."""
    lock: Path | None = None
    """Path of the project's uv.lock, or None if it has no lock. A member of a uv workspace has the workspace's lock."""
    folder: Path | None = None
    """Folder of the project."""
    preferred: tuple[str, ...] = ()
    """Versions of a requirements.txt beside a pyproject.toml without uv.lock, such as an export of poetry.lock."""
    options: tuple[str, ...] = ()
    """Options of a requirements.txt that name package indexes, such as `--extra-index-url`."""
    is_aion: bool = False
    """True for aion-lambda's own repository, which packages its example agents."""

    @property
    def described(self) -> str:
        """Names of the files with requirements, as text for the developer."""
        names = [source.name for source in self.sources] + ([self.lock.name] if self.lock else [])
        if not names and not self.lines:
            return "no files of the project"
        names += ["requirements.txt (versions)"] if self.preferred else []
        lock = "" if self.lock else " (no uv.lock: unpinned dependencies get their newest version)"
        return f"{', '.join(names) or 'langgraph.json'}{lock}"


def wanted(folder: Path, also: Sequence[str] = ()) -> Wanted:
    """Read the project's requirements from pyproject.toml and uv.lock or, without these, from requirements.txt.

    `also` are requirements from another file such as langgraph.json. Raises BuildError for an unreadable file.
    """
    lock = _lock_of(folder)
    requirements = folder / "requirements.txt"
    exported = _text(requirements).splitlines() if requirements.is_file() else []
    project = read_pyproject(folder)
    lines = [*also, *_group(project, "agents")]
    table = project.get("project")
    if isinstance(table, dict) and canonicalize_name(str(table.get("name", ""))) == DISTRIBUTION:
        # In aion-lambda's own checkout, leave out aion-lambda's dependencies: the example agents do not need them.
        return Wanted((), tuple(lines), _extras(lines), lock, folder, is_aion=True)
    # Ignore a [project] without dependencies if the folder has a requirements.txt.
    has_dependencies = isinstance(table, dict) and "dependencies" in [*table, *table.get("dynamic", [])]
    if isinstance(table, dict) and (has_dependencies or not requirements.is_file()):
        declared = [str(line) for line in table.get("dependencies", [])]
        found = (folder / "pyproject.toml",)
        preferred = () if lock else tuple(_pins(exported))
        options = () if lock else tuple(_index_options(requirements))
        return Wanted(found, tuple(lines), _extras([*declared, *lines]), lock, folder, preferred, options)
    if requirements.is_file():
        options = tuple(_index_options(requirements))
        return Wanted((requirements,), tuple(lines), _extras([*exported, *lines]), options=options)
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
    return Wanted((), tuple(lines))


def files_with_install_requires(folder: Path) -> list[str]:
    """Return the names of setuptools' files with dependencies (`install_requires`). A build does not read these files."""
    # Search the text only, because a setup.py is a program.
    return [
        name
        for name in ("setup.py", "setup.cfg")
        if (folder / name).is_file() and b"install_requires" in (folder / name).read_bytes()
    ]


def _index_options(requirements: Path) -> Iterator[str]:
    """Yield the options that name package indexes, from a requirements.txt and the files that it includes."""
    files = [requirements.resolve()] if requirements.is_file() else []
    for file in files:
        for line in _text(file).splitlines():
            option, value, *_ = [*re.split(r"[\s=]+", _bare(line), maxsplit=1), ""]
            if option in ("-r", "--requirement") and (included := (file.parent / value).resolve()).is_file():
                files += [] if included in files else [included]
            elif option in ("-f", "--find-links") and not value.startswith("$") and ":" not in value:
                yield f"{option} {(file.parent / value).resolve()}"
            elif option in ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index"):
                yield f"{option} {value}".strip()


def installed_frameworks(project: Wanted) -> set[str]:
    """Return the names of the frameworks in the project's uv.lock. Return an empty result without a uv.lock."""
    known = _names(_locked(project))
    return {name for name, framework in FRAMEWORKS.items() if framework.distribution in known}


def check(folder: Path, also: Sequence[str] = ()) -> None:
    """Check the project's requirement files as a build does. Raises BuildError or UvMissing.

    The check works offline. It does not find conflicting versions, as the build does.
    """
    project = wanted(folder, also)
    if project.lock:
        _check_lock(project, _locked(project))


def check_python(folder: Path, python: str) -> None:
    """Raise BuildError if the project's requires-python excludes this Python version, such as "3.13"."""
    declared = read_pyproject(folder).get("project", {}).get("requires-python", "")
    with suppress(InvalidSpecifier):  # uv reports an invalid one
        if not any(SpecifierSet(declared).contains(f"{python}.{patch}") for patch in range(100)):
            raise BuildError(
                f"pyproject.toml requires Python {declared}, but the package is for Python {python}. Correct "
                "requires-python, or set Runtime in template.yaml to a permitted version"
            )


def resolved(
    extras: Sequence[str],
    project: Wanted | None,
    *,
    without: Sequence[str],
    architecture: str,
    python: str,
    folder: Path,
) -> str:
    """Resolve these extras of aion-lambda and the project's requirements together, to exact versions with hashes.

    Versions come from the project's lock or, for distributions missing in the lock, from the file `TESTED`. The
    distributions in `without` are left out. Raises BuildError or UvMissing.
    """
    own = sorted({line for extra in extras for line in required_by(extra)} | set(required_by("")))
    project = project or Wanted()
    locked = _locked(project)
    pins = "\n".join(_pins(locked.splitlines()))
    known = _names("\n".join([pins, *project.preferred]))
    tested = [line for line in TESTED.read_text(encoding="utf-8").splitlines() if _name(line) not in known]
    preferred = "\n".join([*project.preferred, *_pins(tested)])
    inputs = "\n".join([*project.options, *own, *project.lines])
    sources = project.sources
    if project.lock:
        _check_lock(project, locked)

    content = [inputs, pins, preferred, *without, architecture, python, *(_text(source) for source in sources)]
    key = hashlib.sha256("\0".join([uv_version(), *content]).encode()).hexdigest()[:20]
    cached = cache() / f"requirements-{key}.txt"
    # Do not cache the versions of a project without a lock, since they change with each release of a dependency.
    is_cacheable = project.lock is not None or not (project.sources or project.lines)
    if is_cacheable and cached.is_file():
        cached.touch()
        text = cached.read_text(encoding="utf-8")
    else:
        text = _compiled(inputs, sources, pins, preferred, without, architecture, python, folder)
        if is_cacheable:
            cached.parent.mkdir(parents=True, exist_ok=True)
            part = cached.with_suffix(f".{os.getpid()}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(cached)
    # Do not cache local dependencies, because their code may change while the lock stays the same.
    return "\n".join([*project.options, *_with_local(text, folder, python)])


def required_by(extra: str) -> list[str]:
    """Return the requirements of an extra of aion-lambda. For "", return the requirements outside of extras."""
    found: list[str] = []
    for line in requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        is_of_extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if not (requirement.marker.evaluate({"extra": extra}) if is_of_extra and requirement.marker else not extra):
            continue
        if canonicalize_name(requirement.name) == DISTRIBUTION:
            found += [each for inner in sorted(requirement.extras) for each in required_by(inner)]
        else:
            requirement.marker = None
            found.append(str(requirement))
    return found


def _compiled(
    inputs: str,
    sources: Sequence[Path],
    pins: str,
    preferred: str,
    without: Sequence[str],
    architecture: str,
    python: str,
    folder: Path,
) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        names = ("aion.in", "locked.txt", "without.txt", "compiled.txt")
        own, constraints, overrides, compiled = (Path(scratch, name) for name in names)
        own.write_text(inputs, encoding="utf-8")
        constraints.write_text(pins, encoding="utf-8")
        # uv prefers the versions in its output file, but takes others if a requirement excludes these.
        compiled.write_text(preferred, encoding="utf-8")
        # Exclude distributions by a marker that is never true. Exclude aion-lambda too, because its files are copied.
        never = [f"{name} ; python_version < '0'" for name in (DISTRIBUTION, *without)]
        overrides.write_text("\n".join(never), encoding="utf-8")
        command = [find_uv(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes"]
        command += ["--python-platform", PLATFORMS[architecture], "--python-version", python]
        command += ["--python", sys.executable, "--output-file", str(compiled)]
        command += ["--constraint", str(constraints), "--override", str(overrides), str(own), *map(str, sources)]
        try:
            # Run uv in the project's folder, since its pyproject.toml may configure other package indexes.
            run(command, cwd=folder)
        except BuildError as error:
            is_conflict = "No solution found" in str(error) and "not found in the package registry" not in str(error)
            reason = "conflict with those of aion-lambda" if is_conflict else "cannot be resolved"
            raise BuildError(f"the project's dependencies {reason}.\n{error}") from error
        return compiled.read_text(encoding="utf-8")


def _with_local(text: str, folder: Path, python: str) -> Iterator[str]:
    """Yield the lines of resolved requirements, with local folders and wheels replaced by wheels with hashes."""
    for requirement in re.split(r"\n(?=\S)", text.strip()):
        # The further lines of a requirement are its hashes.
        line = requirement.partition("\n")[0].removesuffix(" \\")
        if not line or line.startswith(("#", "--")) or "==" in line:
            yield requirement
            continue
        name, at, place = line.removeprefix("-e ").partition(" @ ")
        place = (place if at else name).partition("#")[0].replace("${PROJECT_ROOT}", str(folder))
        if place.startswith(("git+", "http:", "https:", "ssh:")):
            raise BuildError(f"{line!r} is not from an index: build its wheel with `uv build`, and require that file")
        # Decode the path of a file URL, in which a space is %20.
        if place.startswith("file:"):
            place = url2pathname(place.removeprefix("file:").removeprefix("//"))
        path = (folder / place).resolve()
        wheel = path if path.suffix == ".whl" else _wheel_of(path, python)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        yield f"{_name_of_wheel(wheel)} @ {wheel.as_uri()} \\\n    --hash=sha256:{digest}"


def _wheel_of(folder: Path, python: str) -> Path:
    """Build the wheel of a dependency in a local folder. Raises BuildError if it is not pure Python."""
    with tempfile.TemporaryDirectory() as scratch:
        # Name the interpreter. Otherwise uv takes the folder's .python-version, or downloads one for requires-python.
        command = [find_uv(), "build", "--quiet", "--wheel", "--python", interpreter(python) or sys.executable]
        run([*command, "--out-dir", scratch, str(folder)])
        (built,) = Path(scratch).glob("*.whl")
        if not built.name.endswith("-any.whl"):
            raise BuildError(f"{folder} builds a wheel for this machine only ({built.name}); Lambda needs another one")
        kept = cache() / "wheels" / hashlib.sha256(built.read_bytes()).hexdigest()[:20] / built.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(built, kept)
    return kept


def _lock_of(folder: Path) -> Path | None:
    """Return the path of the project's uv.lock or, for a member of a uv workspace, the path of the workspace's."""
    if (folder / "uv.lock").is_file():
        return folder / "uv.lock"
    for root in folder.parents:
        workspace = _uv_settings(root).get("workspace")
        if workspace is not None and (root / "uv.lock").is_file():
            members, excluded = (_matching(root, workspace.get(key, ())) for key in ("members", "exclude"))
            return root / "uv.lock" if folder in members and folder not in excluded else None
    return None


def _matching(root: Path, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in root.glob(pattern)]


def _uv_settings(folder: Path) -> dict[str, Any]:
    """Return the table [tool.uv] of the folder's pyproject.toml, or an empty dict. Raises BuildError."""
    found = read_pyproject(folder).get("tool", {}).get("uv", {})
    return found if isinstance(found, dict) else {}


def _all_uv_settings(project: Wanted) -> list[dict[str, Any]]:
    """Return the uv settings of the project and, for a member of a uv workspace, of the workspace."""
    folders = [project.folder, project.lock.parent if project.lock else None]
    return [_uv_settings(folder) for folder in dict.fromkeys(folders) if folder]


def indexes(folder: Path) -> dict[str, list[str]]:
    """Return the package indexes, as `name=url`, of each distribution with an index in [tool.uv.sources].

    `uv pip install` does not read this table, and searches an index with `explicit = true` only if it is named.
    """
    settings = _all_uv_settings(Wanted(lock=_lock_of(folder), folder=folder))
    urls = {each.get("name"): each.get("url") for table in settings for each in table.get("index", [])}
    found: dict[str, list[str]] = {}
    for table in settings:
        for name, sources in table.get("sources", {}).items():
            named = [source.get("index") for source in (sources if isinstance(sources, list) else [sources])]
            found[canonicalize_name(name)] = [f"{index}={urls[index]}" for index in named if index in urls]
    return found


def _locked(project: Wanted) -> str:
    """Export the versions of the project's uv.lock in the format of requirements.txt. Without a lock, return "".

    The result has the versions of every group and extra, except for a project with extras or groups in conflict.
    """
    if project.lock is None:
        return ""
    command = [find_uv(), "export", "--quiet", "--frozen", "--no-header", "--no-annotate", "--no-hashes"]
    if not any("conflicts" in settings for settings in _all_uv_settings(project)):
        command += ["--all-groups", "--all-extras"]
    return run([*command, "--no-emit-project", "--project", str(project.folder)])


def _check_lock(project: Wanted, locked: str) -> None:
    """Raise BuildError if the lock lacks a dependency of the project, or contains another version than required."""
    declared = [*project.lines]
    for source in project.sources:
        if source.name == "pyproject.toml":
            declared += [str(each) for each in read_pyproject(source.parent)["project"].get("dependencies", [])]
    # Do not look for dependencies with a URL or local source, because `uv export` prints paths instead of their names,
    # nor for those whose declared version is overridden.
    own = {DISTRIBUTION, ""}
    for settings in _all_uv_settings(project):
        own |= {canonicalize_name(name) for name in settings.get("sources", {})}
        own |= {_name(line) for line in settings.get("override-dependencies", [])}
    lines = [line for line in declared if _name(line) not in own and not _requirement(line).url]
    if lost := sorted({_name(line) for line in lines} - _names(locked)):
        raise BuildError(f"uv.lock lacks {', '.join(lost)} of pyproject.toml: run `uv lock`")
    pins = [_requirement(line) for line in _pins(locked.splitlines())]
    for line in lines:
        # A requirement with a marker may be for another platform, and then has another version or none.
        asked = _requirement(line)
        versions = [str(pin.specifier)[2:] for pin in pins if canonicalize_name(pin.name) == _name(line)]
        if versions and not asked.marker and not any(asked.specifier.contains(each, True) for each in versions):
            raise BuildError(
                f"uv.lock has {asked.name} {versions[0]}, but pyproject.toml requires {line}: run `uv lock`"
            )


def _pins(lines: Sequence[str]) -> Iterator[str]:
    """Yield the requirements with an exact version, without hashes. Lines of local folders and wheels are left out."""
    yield from (_bare(line) for line in lines if re.match(r"[A-Za-z0-9][\w.-]*(\[[^]]*\])?==", line))


def _names(text: str) -> set[str]:
    return {_name(line) for line in text.splitlines()} - {""}


def _name(line: str) -> str:
    """Return the canonical name of the distribution in a line of requirements, or "" for an option or a path."""
    try:
        return canonicalize_name(_requirement(line).name)
    except InvalidRequirement:
        return ""


def _requirement(line: str) -> Requirement:
    return Requirement(_bare(line))


def _bare(line: str) -> str:
    """Return a line of requirements without its comment, hashes and continuation mark."""
    return re.split(r"\s#|\\|\s--hash", line)[0].strip()


def _name_of_wheel(wheel: Path) -> str:
    return canonicalize_name(wheel.name.split("-")[0])


def _extras(declared: Sequence[str]) -> frozenset[str]:
    """Return the extras of aion-lambda named in these requirements, except `local` and the frameworks' extras."""
    named = {extra for line in declared if _name(line) == DISTRIBUTION for extra in _requirement(line).extras}
    # Leave out `local`, an extra for development, and the extras of frameworks, which follow from the agents' imports.
    return frozenset(named) - {"local"} - extras()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BuildError(
            f"{file} is not UTF-8 ({error}): save it as UTF-8. In PowerShell, write it by `| Out-File -Encoding utf8 {file.name}`"
        ) from error


def read_pyproject(folder: Path) -> dict[str, Any]:
    """Return the parsed pyproject.toml of the folder, or an empty dict if the file is missing.

    Raises BuildError for an invalid file.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        return {}
    try:
        content = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise BuildError(f"{file} is not valid TOML: {error}") from error
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


def _group(project: dict[str, Any], name: str) -> list[str]:
    return [str(line) for line in project.get("dependency-groups", {}).get(name, []) if isinstance(line, str)]
