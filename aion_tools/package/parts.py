"""Parts of Lambda packages in the cache: one for each distribution, and one for aion's own code.

A package is a folder of hard links to its parts. Functions and projects share the parts, so each distribution is
installed and compiled once.
"""

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import distributions as installed
from pathlib import Path

from packaging.utils import canonicalize_name

from aion_tools.package.cache import cache, file_lock, filled_once
from aion_tools.package.files import boto_words, compile_all, compiled, fix_times_and_modes, put, strip_libraries, tidy
from aion_tools.package.plan import PackagePlan
from aion_tools.package.programs import BuildError, find_uv, run
from aion_tools.package.requirements import PLATFORMS, indexes

SERVICES = frozenset({"dynamodb", "kms", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""Names of the AWS services used by aion and by boto3's sign-in. Packages always contain their boto models."""


def link_parts(planned: PackagePlan, target: Path) -> None:
    """Link the plan's distributions and aion's own code into the folder. Raises BuildError or UvMissing.

    The boto models of unused AWS services are left out. A service is used if SERVICES contains it, or if a distribution
    or the project imports boto3 or botocore and quotes its name. Of files with the same name, the first is linked.
    """
    parts = install(planned)
    used = SERVICES | boto_words(file for _, file in planned.project_files)
    used |= {word for part in parts for word in (part.parent / "words").read_text(encoding="utf-8").split()}
    models = (part / name / "data" for part in parts for name in ("boto3", "botocore"))
    unused = {str(each) for data in models if data.is_dir() for each in data.iterdir() if each.name not in used}
    unused = {each for each in unused if os.path.isdir(each)}
    for part in [*parts, *([_own_code(planned)] if planned.own_files else [])]:
        _link_tree(str(part), str(target), unused)


def install(planned: PackagePlan) -> list[Path]:
    """Return the cached folder of each distribution of the plan. Missing distributions are installed together.

    Raises BuildError or UvMissing.
    """
    folders = {_folder(planned, line): line for line in _lines(planned.requirements)}
    # Let only one process install at a time, so that waiting processes need not install the same distributions.
    with file_lock(cache() / "distributions"):
        missing = {folder: line for folder, line in folders.items() if not (folder / "built").is_file()}
        if missing:
            _fill(missing, planned)
        for folder in folders:
            (folder / "built").touch()
    return [folder / "code" for folder in folders]


def _lines(requirements: str) -> Iterator[str]:
    """Split the text of a requirements file into its requirements, each with the lines of its hashes."""
    lines = re.split(r"\n(?=\S)", requirements.strip())
    yield from (line for line in lines if line and not line.startswith(("#", "-")))


def _name(line: str) -> str:
    return canonicalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0])


def _folder(planned: PackagePlan, line: str) -> Path:
    digest = replace(planned, requirements=line).dependencies_digest
    return cache() / f"{_name(line)}-{planned.architecture}-{planned.python}-{digest}"


def _fill(missing: Mapping[Path, str], planned: PackagePlan) -> None:
    """Install these requirements together, then move the files of each distribution to its own folder."""
    # Install within the cache folder, because hard links need one file system.
    scratch = cache() / "distributions.scratch" / "code"
    shutil.rmtree(scratch.parent, ignore_errors=True)
    try:
        _run_uv(missing.values(), scratch, planned)
        files: dict[str, list[Path]] = {
            canonicalize_name(each.name): [Path(place) for place in each.files or () if ".." not in place.parts]
            for each in installed(path=[str(scratch)])
        }
        tidy(scratch)
        strip_libraries(scratch)
        compile_all(scratch, planned.python, [file.relative_to(scratch) for file in scratch.rglob("*.py")])
        fix_times_and_modes(scratch)
        # Count the distributions of each top folder, because a folder of only one distribution is moved as a whole.
        owners = Counter(top for each in files.values() for top in {place.parts[0] for place in each})
        for folder, line in missing.items():
            shutil.rmtree(folder, ignore_errors=True)
            code = folder / "code"
            code.mkdir(parents=True)
            own = {
                place.parts[0] for place in files[_name(line)] if len(place.parts) > 1 and owners[place.parts[0]] == 1
            }
            for top in own:
                if (scratch / top).is_dir():
                    (scratch / top).rename(code / top)
            for place in files[_name(line)]:
                if place.parts[0] not in own:
                    _link_module(scratch, code, place, planned.python)
            words = set() if _name(line) in ("boto3", "botocore", "s3transfer") else boto_words(folder.rglob("*.py"))
            (folder / "words").write_text("\n".join(sorted(words)), encoding="utf-8")
    finally:
        shutil.rmtree(scratch.parent, ignore_errors=True)


def _link_module(source: Path, target: Path, place: Path, python: str) -> None:
    """Hard-link a file of the source folder and, for a Python module, its .pyc file. Missing files are skipped."""
    for each in (place, compiled(place, python)) if place.suffix == ".py" else (place,):
        if (source / each).is_file():
            (target / each).parent.mkdir(parents=True, exist_ok=True)
            os.link(source / each, target / each)


def _run_uv(lines: Iterable[str], target: Path, planned: PackagePlan) -> None:
    target.mkdir(parents=True)
    command = [find_uv(), "pip", "install", "--quiet", "--target", str(target), "--python", sys.executable]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
    command += ["--python-platform", PLATFORMS[planned.architecture], "--python-version", planned.python]
    own_indexes = indexes(planned.folder) if planned.folder else {}
    named = [line for line in planned.requirements.splitlines() if line.startswith("-")]
    groups: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        groups.setdefault(tuple(own_indexes.get(_name(line), ())), []).append(line)
    for places, group in groups.items():
        # Write it beside the target, because a distribution may have a file with this name.
        requirements = target.with_name("requirements.txt")
        requirements.write_text("\n".join([*named, *group]), encoding="utf-8")
        # Name the indexes in the variable instead of the option `--index`, because their URLs may contain passwords.
        more = {"UV_INDEX": " ".join(places)} if places else {}
        try:
            run([*command, "--requirements", str(requirements)], cwd=planned.folder, more=more)
        except BuildError as error:
            raise BuildError(
                f"cannot install the dependencies of {planned.function} for {planned.architecture}, "
                f"Python {planned.python}. Each dependency needs a wheel for it, since the build compiles nothing.\n{error}"
            ) from error


def _own_code(planned: PackagePlan) -> Path:
    """Return the cached folder with aion's own code, compiled."""
    own = replace(planned, function="", architecture="", requirements="", files=planned.own_files)
    folder = cache() / f"aion-{planned.python}-{own.digest}"
    with filled_once(folder) as is_new:
        if is_new:
            for place, file in own.files:
                put(file, folder / "code" / place)
            compile_all(folder / "code", planned.python, [Path(place) for place, _ in own.files])
            fix_times_and_modes(folder / "code")
    return folder / "code"


def _link_tree(source: str, target: str, left_out: Collection[str]) -> None:
    """Hard-link the files of a folder into the target, except the folders `left_out`. Existing files are kept."""
    os.makedirs(target, exist_ok=True)
    for entry in os.scandir(source):
        if entry.is_dir():
            if entry.path not in left_out:
                _link_tree(entry.path, f"{target}/{entry.name}", left_out)
        elif not os.path.lexists(f"{target}/{entry.name}"):
            os.link(entry.path, f"{target}/{entry.name}")
