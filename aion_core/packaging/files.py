"""What becomes of a package's files once all are there: the needless go, the rest is made ready to load, and fixed.

Fixed: the same files give the same bytes, names, modes and times, whenever and wherever they are made.
"""

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from aion_core.packaging.elf import stripped
from aion_core.packaging.interpreters import interpreter

TASK_ROOT = "/var/task"
# The first moment that a zip can tell.
EPOCH = 315532800
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

# Of what tells of an installed distribution libraries read the metadata and the entry points, and pip the rest.
_KEPT_OF_DIST_INFO = frozenset({"METADATA", "entry_points.txt", "top_level.txt", "licenses"})
# Who passes a distribution on passes these on with it.
_LEGAL = ("LICEN", "NOTICE", "COPYING", "AUTHORS")
# What a distribution was built from, or is tested with.
_FOLDERS = frozenset({"tests", "__pycache__"})
_SUFFIXES = frozenset({".pyc", ".pyo", ".a", ".c", ".h", ".hpp", ".cpp", ".pyx", ".pxd", ".pxi"})
# Written by programs, for nobody: the service models' notes for the web pages, and bills of materials.
_BOTOCORE_NEEDLESS = ("examples-1.json", "examples-1.json.gz")


def tidy(target: Path) -> None:
    """Take away what never runs on Lambda from what the distributions brought."""
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
    """Cut the debug symbols off the shared libraries."""
    for library in target.rglob("*.so*"):
        if library.is_file():
            before = library.read_bytes()
            after = stripped(before)
            if len(after) < len(before):
                library.write_bytes(after)


# --- botocore's data ---


def keep_services(target: Path, kept: Collection[str]) -> None:
    """Take the models of AWS's services away, where boto3 is shipped, but for those that are named.

    A service is named by `kept`, or in quotes by a package or a folder of the project's that imports boto3 or botocore:
    so an agent has what it asks for.
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
    """Compile every file within, as if it lay where Lambda puts it, where that Python is here to do it.

    The file system of a function is read-only: without them every cold start compiles what it imports. They are never
    checked against their sources, so it is of no account which times the zip or its unpacking gives those.
    """
    program = interpreter(python)
    if program is None:
        return
    # No order of a set's members but one: each process would have its own.
    environ = {"PYTHONHASHSEED": "0", "PATH": os.environ.get("PATH", "")}
    command = [program, "-s", "-P", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    # What it cannot compile is left: some distributions bring templates, which are no Python yet and nobody imports.
    subprocess.run(  # noqa: S603 - our own words
        [*command, "-s", str(target), "-p", TASK_ROOT, *map(str, within)], capture_output=True, env=environ
    )
    made = [file for each in within for file in (each.rglob("*.pyc") if each.is_dir() else [compiled(each, python)])]
    write_again(program, [file for file in made if file.is_file()])


# What is written tells of each object whether anything else held it, be it garbage of the file that was compiled before:
# which files one process compiles, and when it collects, is chance. Read back, an object is held by its own code alone.
_WRITES_AGAIN = """
import marshal, sys
for name in sys.stdin.read().split("\\n"):
    with open(name, "rb") as file:
        header, code = file.read(16), marshal.loads(file.read())
    with open(name, "wb") as file:
        file.write(header + marshal.dumps(code))
"""


def write_again(program: str, compiled_files: Sequence[Path]) -> None:
    """Write compiled files as this Python writes what it has just read: the same code gives the same bytes."""
    if compiled_files:
        names = "\n".join(map(str, compiled_files))
        subprocess.run([program, "-I", "-c", _WRITES_AGAIN], input=names, text=True, check=True)  # noqa: S603 - our own


def no_compiler(python: str) -> str:
    """Return why nothing can be compiled on this machine."""
    return f"no Python {python} is on this machine (`uv python install {python}` brings one)"


def compiled(source: Path, python: str) -> Path:
    """Return where the compiled file of a source is, if it could be compiled."""
    return source.parent / "__pycache__" / f"{source.stem}.cpython-{python.replace('.', '')}.pyc"


# --- The same bytes, always ---


def fix(target: Path) -> None:
    """Give every file and folder a fixed time and mode."""
    for path in sorted(target.rglob("*"), reverse=True):
        is_program = path.is_dir() or path.suffix == ".sh" or ".so" in path.suffixes
        path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (EPOCH, EPOCH))
    target.chmod(0o755)
    os.utime(target, (EPOCH, EPOCH))


def files_of(target: Path) -> Iterator[Path]:
    """Yield every file, in one order for all machines."""
    yield from sorted((path for path in target.rglob("*") if path.is_file()), key=lambda path: path.as_posix())


def size_of(target: Path) -> int:
    """Return how many bytes Lambda unpacks."""
    return sum(file.stat().st_size for file in files_of(target))


def write_zip(target: Path, archive: Path) -> None:
    """Write the folder's files into an archive of fixed order and times."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as written:
        for file in files_of(target):
            info = zipfile.ZipInfo(file.relative_to(target).as_posix(), _ZIP_EPOCH)
            info.create_system = 3  # Unix, whose modes follow
            info.external_attr = (0o100000 | (file.stat().st_mode & 0o777)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            written.writestr(info, file.read_bytes())
