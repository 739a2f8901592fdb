"""Preparation of a Lambda package's files. Needless files are removed, and Python files are compiled.

The same inputs give files with the same names, bytes, modes and times on every machine.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from aion_core.packaging.cache import cache, filled_once
from aion_core.packaging.elf import stripped
from aion_core.packaging.programs import compiler_version, interpreter

TASK_ROOT = "/var/task"
# The earliest time of the zip format.
EPOCH = 315532800
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

# Files of a distribution's metadata read by libraries. Only pip reads the other files.
_KEPT_OF_DIST_INFO = frozenset({"METADATA", "entry_points.txt", "top_level.txt", "licenses"})
# Licences require these files in every copy of a distribution.
_LEGAL = ("LICEN", "NOTICE", "COPYING", "AUTHORS")
# Tests, compiled files and build sources of distributions.
_FOLDERS = frozenset({"tests", "__pycache__"})
_SUFFIXES = frozenset({".pyc", ".pyo", ".a", ".c", ".h", ".hpp", ".cpp", ".pyx", ".pxd", ".pxi"})
# Examples for botocore's documentation.
_BOTOCORE_NEEDLESS = ("examples-1.json", "examples-1.json.gz")


def tidy(target: Path) -> None:
    """Delete files of installed distributions not needed on Lambda, such as tests and build sources."""
    shutil.rmtree(target / "bin", ignore_errors=True)
    (target / ".lock").unlink(missing_ok=True)
    for entry in sorted(target.iterdir()):
        if entry.name.endswith(".dist-info"):
            for part in entry.iterdir():
                if part.name not in _KEPT_OF_DIST_INFO and not part.name.upper().startswith(_LEGAL):
                    _remove(part)
        elif entry.is_dir():
            for path in [path for path in entry.rglob("*") if _is_needless(path)]:
                _remove(path)


def _is_needless(path: Path) -> bool:
    return path.name in _FOLDERS if path.is_dir() else path.suffix in _SUFFIXES


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def strip_libraries(target: Path) -> None:
    """Remove the debug symbols from all shared libraries in the folder."""
    for library in target.rglob("*.so*"):
        if library.is_file():
            before = library.read_bytes()
            after = stripped(before)
            if len(after) < len(before):
                library.write_bytes(after)


# --- botocore's data ---


def keep_services(target: Path, kept: Collection[str]) -> None:
    """Delete botocore's and boto3's data for unused AWS services from the package.

    A service is used if `kept` names it, or if a package or project folder imports boto3 or botocore and contains the
    service's name in quotes.
    """
    data = target / "botocore" / "data"
    if not data.is_dir():
        return
    services = {folder.name for folder in data.iterdir() if folder.is_dir()}
    missing = set(kept) - services
    if missing:
        raise ValueError(f"botocore has no model of {', '.join(sorted(missing))}")
    named = set(kept) | _named_services(target, services)
    for service in services - named:
        shutil.rmtree(data / service)
        shutil.rmtree(target / "boto3" / "data" / service, ignore_errors=True)
    for path in list(data.rglob("*")) + list((target / "boto3").glob("examples")):
        if path.name in (*_BOTOCORE_NEEDLESS, "examples"):
            _remove(path)


_USES_BOTO = re.compile(rb"^\s*(?:import|from)\s+(?:aio)?boto(?:3|core)\b", re.MULTILINE)
_QUOTED = re.compile(rb"[\"']([a-z0-9-]+)[\"']")


def _named_services(target: Path, services: Collection[str]) -> set[str]:
    named: set[str] = set()
    for entry in target.iterdir():
        if entry.name in ("boto3", "botocore", "s3transfer", "aion_core") or not entry.is_dir():
            continue
        texts = [file.read_bytes() for file in entry.rglob("*.py")]
        if any(_USES_BOTO.search(text) for text in texts):
            named |= {word.decode() for text in texts for word in _QUOTED.findall(text)} & set(services)
    return named


# --- .pyc files ---


def compile_all(target: Path, python: str, within: Sequence[Path]) -> None:
    """Compile the package's Python files in `within` to .pyc files, if this machine has that Python version.

    A function's file system is read-only: without .pyc files each cold start compiles its imports again. Python does not
    check these .pyc files against the times of their sources, which differ after unpacking.

    A file compiled before comes from the cache, because the functions share most of their dependencies.
    """
    program = interpreter(python)
    if program is None:
        return
    found = [file for each in within for file in (each.rglob("*.py") if each.is_dir() else [each])]
    sources = [file.relative_to(target) for file in found if file.is_file()]
    version = hashlib.sha256(compiler_version(program).encode()).hexdigest()[:20]
    store = cache() / f"compiled-{python}-{version}"
    with filled_once(store):
        kept = {source: store / _compiled_name(target, source) for source in sources}
        if lacking := {source: file for source, file in kept.items() if not file.is_file()}:
            _compile(program, python, target, lacking)
        for source, file in kept.items():
            made = compiled(target / source, python)
            # Replace an existing file, since other packages may share it by a hard link.
            made.unlink(missing_ok=True)
            if file.is_file():
                made.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, made)


def _compiled_name(target: Path, source: Path) -> str:
    """Return the name in the cache for the compiled file of a source. It contains the source's path in the package."""
    return hashlib.sha256(f"{source.as_posix()}\n".encode() + (target / source).read_bytes()).hexdigest()


def _compile(program: str, python: str, target: Path, files: Mapping[Path, Path]) -> None:
    """Compile the package's sources, given by their relative paths, to these files. Leave out invalid Python."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for source in files:
            (scratch / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target / source, scratch / source)
        # Fix the hash seed, so that sets have the same order in every process.
        environ = {"PYTHONHASHSEED": "0", "PATH": os.environ.get("PATH", "")}
        command = [program, "-s", "-P", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
        # Ignore errors, because some distributions contain templates with invalid Python.
        subprocess.run([*command, "-s", folder, "-p", TASK_ROOT, folder], capture_output=True, env=environ)  # noqa: S603 - fixed arguments
        made = {compiled(scratch / source, python): file for source, file in files.items()}
        made = {each: file for each, file in made.items() if each.is_file()}
        normalize(program, list(made))
        for each, file in made.items():
            # Copy, then rename: another process never reads half a file.
            part = file.with_suffix(".part")
            shutil.copyfile(each, part)
            part.replace(file)


# marshal marks each object with other references, which may come by chance from a file compiled before. After reading a
# file back, its objects have references from their own code only.
_NORMALIZE = """
import marshal, sys
for name in sys.stdin.read().split("\\n"):
    with open(name, "rb") as file:
        header, code = file.read(16), marshal.loads(file.read())
    with open(name, "wb") as file:
        file.write(header + marshal.dumps(code))
"""


def normalize(program: str, compiled_files: Sequence[Path]) -> None:
    """Read each compiled file and write it again, so that the same code always gives the same bytes."""
    if compiled_files:
        names = "\n".join(map(str, compiled_files))
        subprocess.run([program, "-I", "-c", _NORMALIZE], input=names, text=True, check=True)  # noqa: S603 - fixed code


def no_compiler(python: str) -> str:
    """Return the reason for missing .pyc files, with the command that installs this Python version."""
    return f"this machine has no Python {python} (install it with `uv python install {python}`)"


def compiled(source: Path, python: str) -> Path:
    """Return the path of the .pyc file of a Python source file."""
    return source.parent / "__pycache__" / f"{source.stem}.cpython-{python.replace('.', '')}.pyc"


# --- Reproducible bytes ---


def fix_times_and_modes(target: Path) -> None:
    """Give every file and folder of the package a fixed time and mode."""
    for path in sorted(target.rglob("*"), reverse=True):
        is_program = path.is_dir() or path.suffix == ".sh" or ".so" in path.suffixes
        path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (EPOCH, EPOCH))
    target.chmod(0o755)
    os.utime(target, (EPOCH, EPOCH))


def files_of(target: Path) -> Iterator[Path]:
    """Yield every file in the folder, in the same order on every machine."""
    yield from sorted((path for path in target.rglob("*") if path.is_file()), key=lambda path: path.as_posix())


def size_of(target: Path) -> int:
    """Return the total size of the folder's files in bytes."""
    return sum(file.stat().st_size for file in files_of(target))


def write_zip(target: Path, archive: Path) -> None:
    """Write the folder's files into a zip file, with fixed order and times."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as written:
        for file in files_of(target):
            info = zipfile.ZipInfo(file.relative_to(target).as_posix(), _ZIP_EPOCH)
            info.create_system = 3  # Unix, so that the attributes are file modes
            info.external_attr = (0o100000 | (file.stat().st_mode & 0o777)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            written.writestr(info, file.read_bytes())
