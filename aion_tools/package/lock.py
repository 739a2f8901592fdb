"""Exact versions and hashes of a project's dependencies, in the format of pylock.toml.

They come from the project's uv.lock. Only a project without uv.lock is resolved, once for all functions.
"""

import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import tomlkit
from packaging.utils import canonicalize_name

from aion_core.loading.frameworks import FRAMEWORKS, extras
from aion_tools.package.declared import Declared, run_on_lock
from aion_tools.package.functions import ALL_EXTRAS, DISTRIBUTION, Target, agent_extras, required_by
from aion_tools.programs import BuildError, find_uv, interpreter, run


@dataclass(frozen=True)
class Lock:
    """Locked dependencies of a project, without aion-lambda itself. Paths of local files are absolute."""

    wheels: tuple[Mapping[str, Any], ...]
    """Packages of wheels with hashes, as in pylock.toml."""
    sources: tuple[Mapping[str, Any], ...]
    """Packages that uv builds: from git, from a local folder, or from an sdist with a hash."""
    indexes: str = ""
    """Value of UV_INDEX. uv needs it for the passwords of the wheels' servers."""

    @property
    def frameworks(self) -> set[str]:
        """Names of the agent frameworks among the packages."""
        names = {canonicalize_name(each["name"]) for each in (*self.wheels, *self.sources)}
        return {name for name, framework in FRAMEWORKS.items() if framework.distribution in names}


def pylock(packages: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of a pylock.toml with these packages."""
    return tomlkit.dumps({"lock-version": "1.0", "created-by": DISTRIBUTION, "packages": list(packages)})


def locked(project: Declared, frameworks: Iterable[str], target: Target) -> Lock:
    """Return the locked dependencies of the project and of all functions, from uv.lock or newly resolved.

    `frameworks` are those that the agents import. Raises BuildError for a uv.lock that does not match pyproject.toml, for
    versions in conflict, and for a package without a hash or without a permitted hash. Raises UvMissing.
    """
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch).resolve() / "pylock.toml"
        if project.lock:
            _export(project, output)
        else:
            _resolve(project, frameworks, target, output)
        packages = list(_packages(output))
    if project.lock:
        _refuse_unhashed(project.lock, packages)
    checked = [_checked(each, project.hashes.get(each["name"])) for each in packages]
    sources = [each for each in checked if _is_source(each)]
    wheels = [each for each in checked if each not in sources]
    return Lock(tuple(wheels), tuple(sources), " ".join(project.indexes))


def _export(project: Declared, output: Path) -> None:
    """Write what uv.lock has for the project, without development groups. uv compares the lock with pyproject.toml."""
    command = ["export", "--quiet", "--locked", "--format", "pylock.toml", "--no-emit-project"]
    command += ["--no-default-groups", *(["--group", "agents"] if project.has_group else [])]
    if project.is_aion:
        command += [word for name in sorted(ALL_EXTRAS | extras()) for word in ("--extra", name)]
    run_on_lock(project.folder, *command, "--output-file", str(output))


def _resolve(project: Declared, frameworks: Iterable[str], target: Target, output: Path) -> None:
    """Resolve the requirements of a project without uv.lock, together with those of all functions and frameworks."""
    inputs, own = output.with_name("aion.in"), required_by(*ALL_EXTRAS, *agent_extras(frameworks), *project.extras)
    inputs.write_text("\n".join([*project.options, *own, *project.also]), "utf-8")
    # aion-lambda's own code comes from the installation that runs the build: a marker that is never true leaves it out.
    override, constraint = output.with_name("override.txt"), output.with_name("constraint.txt")
    override.write_text(f"{DISTRIBUTION} ; python_version < '0'", "utf-8")
    constraint.write_text("\n".join(project.pins), "utf-8")
    command = [
        find_uv(),
        *["pip", "compile", "--quiet", "--format", "pylock.toml", "--python"],
        sys.executable,
        *target.options,
    ]
    command += ["--override", str(override), "--constraint", str(constraint), "--output-file", str(output)]
    command += [str(inputs), *map(str, project.sources)]
    try:
        # Run it in the project's folder, since its [tool.uv] may name indexes, sources and constraints.
        try:
            run([*command, "--only-binary", ":all:"], cwd=project.folder)
        except BuildError:
            run(command, cwd=project.folder)  # a dependency may have no wheel at all
    except BuildError as error:
        # Look for the last words, because the first are cut off.
        is_conflict = "are unsatisfiable" in str(error) and "not found in the package registry" not in str(error)
        reason = "conflict with those of aion-lambda" if is_conflict else "cannot be resolved"
        raise BuildError(f"the project's dependencies {reason}.\n{error}") from error


def _packages(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the packages of a pylock.toml except aion-lambda, with absolute paths and the hashes of local files."""
    for package in tomllib.loads(file.read_text(encoding="utf-8")).get("packages", []):
        if canonicalize_name(package["name"]) == DISTRIBUTION:
            continue
        for entry in _files(package, "sdist", "archive", "directory", "vcs"):
            entry.pop("upload-time", None)
            entry.pop("editable", None)  # a link to the folder would not be in the package
            if "path" in entry:
                path = (file.parent / entry["path"]).resolve()
                entry["path"] = str(path)
                if path.is_file():
                    entry.setdefault("hashes", {"sha256": sha256(path.read_bytes()).hexdigest()})
        yield package


def _files(package: Mapping[str, Any], *keys: str) -> list[dict[str, Any]]:
    return [*package.get("wheels", []), *(package[key] for key in keys if key in package)]


def _refuse_unhashed(lock: Path, packages: Iterable[Mapping[str, Any]]) -> None:
    """Raise BuildError if uv.lock has no hash of a file that these packages would download.

    For such a file, `uv export` writes the hash of what the server returns now.
    """
    exported = {(each["name"], each.get("version")) for each in packages}
    for package in tomllib.loads(lock.read_text(encoding="utf-8")).get("package", []):
        is_unhashed = any("url" in file and "hash" not in file for file in _files(package, "sdist"))
        if is_unhashed and (package["name"], package.get("version")) in exported:
            raise BuildError(
                f"{package['name']} {package['version']} has no hash in uv.lock, so nothing would show that its file was replaced: "
                f"run `uv lock --upgrade-package {package['name']}`, or require its wheel as a file if its index has no hashes"
            )


def _checked(package: dict[str, Any], permitted: frozenset[str] | None) -> dict[str, Any]:
    """Return the package with only the files whose hash the requirements.txt permits, or all if it has no hashes.

    Raises BuildError if no file remains.
    """
    files, name = _files(package, "sdist", "archive"), f"{package['name']} {package.get('version', '')}".strip()
    if permitted is None or not files:
        return package
    found = {file["hashes"].get("sha256", "") for file in files}
    if not found & permitted:
        raise BuildError(
            f"{name} has another hash than in requirements.txt.\nExpected: sha256:{', sha256:'.join(sorted(permitted))}"
            f"\nFound:    sha256:{', sha256:'.join(sorted(found))}"
        )
    kept = {
        **package,
        "wheels": [each for each in package.get("wheels", []) if each["hashes"].get("sha256") in permitted],
    }
    if package.get("sdist", {}).get("hashes", {}).get("sha256") not in permitted:
        kept.pop("sdist", None)
    return {key: value for key, value in kept.items() if value}


def _is_source(package: Mapping[str, Any]) -> bool:
    archive = package.get("archive", {})
    is_wheel = package.get("wheels") or str(archive.get("path", archive.get("url", ""))).endswith(".whl")
    return not is_wheel


def install(lock: Lock, packages: Sequence[Mapping[str, Any]], folder: Path, target: Target, *options: str) -> None:
    """Install packages of the lock into a folder, as `uv pip install` with these options. uv compares each file's hash.

    Raises BuildError or UvMissing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder.with_name("pylock.toml")
    file.write_text(pylock(packages), encoding="utf-8")
    command = [
        find_uv(),
        *["pip", "install", "--quiet", "--preview-features", "pylock", "--link-mode", "copy"],
        *target.options,
        *options,
    ]
    command += ["--python", interpreter(target.python) or sys.executable, "--target", str(folder), "-r", str(file)]
    # Name the indexes in the variable instead of an option, because their URLs may contain passwords.
    more = {"UV_INDEX": lock.indexes} if lock.indexes else {}
    try:
        # Run it beside the folder, because the project's [tool.uv] must not change what is already locked.
        run(command, cwd=folder.parent, more=more)
    except BuildError as error:
        advice = (
            "\nThe file differs from the one that was locked. If you trust it, lock it anew."
            if "Hash mismatch" in str(error)
            else ""
        )
        raise BuildError(
            f"cannot install the dependencies for {' and Python '.join(target)}.\n{error}{advice}"
        ) from error
