"""Preparation of a Lambda package's files. Needless files are removed, and Python files are compiled.

The same inputs give files with the same names, bytes, modes and times on every machine.
"""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aion_tools.package.elf import stripped
from aion_tools.package.programs import interpreter

TASK_ROOT = "/var/task"
# 1980-01-01, the earliest time that a zip file can store.
EPOCH = 315532800
# Metadata files of a distribution to keep, because libraries read them. Only pip reads the other metadata files.
_KEPT_OF_DIST_INFO = frozenset({"METADATA", "entry_points.txt", "top_level.txt", "licenses"})
# Beginnings of the names of files to keep, because licences require them in every copy of a distribution.
_LEGAL = ("LICEN", "NOTICE", "COPYING", "AUTHORS")
# Folders and file suffixes to delete from distributions: tests, compiled files, C sources, texts for coding agents.
_FOLDERS = frozenset({"tests", "__pycache__", ".agents"})
_SUFFIXES = frozenset({".pyc", ".pyo", ".a", ".c", ".h", ".hpp", ".cpp", ".pyx", ".pxd", ".pxi"})
# Folder and files to delete from boto3 and botocore: examples for their documentation.
_BOTO_NEEDLESS = ("examples", "examples-1.json", "examples-1.json.gz")


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
            needless = _BOTO_NEEDLESS if entry.name in ("boto3", "botocore") else ()
            for path in [path for path in entry.rglob("*") if path.name in needless or _is_needless(path)]:
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


_USES_BOTO = re.compile(rb"^\s*(?:import|from)\s+(?:aio)?boto(?:3|core)\b", re.MULTILINE)
_QUOTED = re.compile(rb"[\"']([a-z0-9-]+)[\"']")


def boto_words(files: Iterable[Path]) -> set[str]:
    """Return all quoted words in the Python files if one of the files imports boto3 or botocore, else an empty set.

    Code quotes the names of its AWS services, as in `client("s3")`. The package contains only these services' models.
    """
    texts = [file.read_bytes() for file in files if file.suffix == ".py"]
    if not any(b"boto" in text and _USES_BOTO.search(text) for text in texts):
        return set()
    return {word.decode() for text in texts for word in _QUOTED.findall(text)}


def compile_all(target: Path, python: str, places: Sequence[Path]) -> None:
    """Compile the package's Python files at these relative paths to .pyc files, if this machine has that Python version.

    A function's file system is read-only: without .pyc files each cold start compiles its imports again. Python does not
    check these .pyc files against the times of their sources, which differ after unpacking. Files with invalid Python,
    such as templates, are left out.
    """
    program = interpreter(python)
    sources = sorted(place.as_posix() for place in places if place.suffix == ".py")
    if program is None or not sources:
        return
    # Fix the hash seed, so that sets in the compiled code have the same order in every process.
    environ = {"PYTHONHASHSEED": "0", "PATH": os.environ.get("PATH", "")}
    count = min(os.cpu_count() or 1, len(sources))
    with ThreadPoolExecutor(count) as executor:
        for _ in executor.map(lambda number: _run_python(program, _COMPILE, sources[number::count], target, environ), range(count)):  # fmt: skip
            pass


# Load the marshalled code and marshal it again. The bytes depend on the reference counts of the code's objects: freshly
# loaded objects have always the same counts, but those of the compiler depend on the files compiled before.
NORMALIZED = """
import gc, marshal, os, sys
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash

def normalized(code): return marshal.dumps(marshal.loads(code))
"""
"""Python program text with a function that marshals a code object to the same bytes in every process."""
_COMPILE = f"""{NORMALIZED}
gc.disable()
for name in sys.stdin.read().splitlines():
    with open(name, "rb") as file:
        source = file.read()
    try:
        code = compile(source, "{TASK_ROOT}/" + name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        continue
    made = cache_from_source(name)
    os.makedirs(os.path.dirname(made), exist_ok=True)
    # Replace an existing file, since other packages may share it by a hard link.
    if os.path.lexists(made):
        os.unlink(made)
    with open(made, "wb") as file:
        # The flag 1: Python does not compare the hash with the source.
        file.write(MAGIC_NUMBER + bytes([1, 0, 0, 0]) + source_hash(source) + normalized(marshal.dumps(code)))
"""


def _run_python(program: str, code: str, lines: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Run Python code in the folder, with these lines as standard input, without modules of the folder and the user."""
    command = [program, "-s", "-P", "-W", "ignore", "-c", code]
    subprocess.run(command, cwd=folder, env=environ, input="\n".join(lines), text=True, check=True)  # noqa: S603 - fixed code


def no_compiler(python: str) -> str:
    """Return a warning that the package has no .pyc files, with the command that installs this Python version."""
    return f"this machine has no Python {python} (install it with `uv python install {python}`)"


def compiled(source: Path, python: str) -> Path:
    """Return the path of the .pyc file of a Python source file."""
    return source.parent / "__pycache__" / f"{source.stem}.cpython-{python.replace('.', '')}.pyc"


def fix_times_and_modes(target: Path) -> None:
    """Give every file and folder of the package a fixed time and mode. Folders, libraries and programs are executable."""
    for path in [*_entries(str(target)), str(target)]:
        found = os.stat(path)
        # Skip hard links to cached files, which have the fixed values.
        if found.st_mtime == EPOCH and stat.S_IMODE(found.st_mode) in (0o644, 0o755):
            continue
        os.chmod(path, 0o755 if stat.S_ISDIR(found.st_mode) or _is_program(path) else 0o644)
        os.utime(path, (EPOCH, EPOCH))


def _is_program(path: str) -> bool:
    """Return True for a library or a program. Decide by name and content, because modes differ between machines."""
    if path.endswith(".sh") or ".so" in os.path.basename(path):
        return True
    with open(path, "rb") as file:
        return file.read(4).startswith((b"\x7fELF", b"#!"))


def _entries(folder: str) -> Iterator[str]:
    """Yield the path of each file and folder in the folder tree. Each folder follows its content."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _entries(entry.path)
        yield entry.path


def put(source: Path, target: Path) -> None:
    """Copy a file to the target path. Replace an existing file, since other packages may share it by a hard link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy(source, target)


def files_of(target: Path) -> Iterator[Path]:
    """Yield every file in the folder, in the same order on every machine."""
    yield from sorted((path for path in target.rglob("*") if path.is_file()), key=lambda path: path.as_posix())


def size_of(target: Path) -> int:
    """Return the total size of the folder's files in bytes."""
    found = map(os.stat, _entries(str(target)))
    return sum(each.st_size for each in found if stat.S_ISREG(each.st_mode))
