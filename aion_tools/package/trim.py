"""Files of installed distributions that no function needs, and native libraries and modules prepared for Lambda."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pathspec import GitIgnoreSpec

from aion_tools.package.elf import stripped
from aion_tools.programs import BuildError, compiler_version, interpreter

# Number of processes that compile a package, the same on every machine.
_SHARES = 4
TASK_ROOT = "/var/task"
DEAD_WEIGHT = {
    "/bin/": "commands for a terminal",
    "/.lock": "uv's own file",
    "tests/": "tests of a distribution",
    "__pycache__/": "modules compiled by another Python, or for another folder",
    ".agents/": "texts for coding agents",
    "*.a": "libraries for a linker",
    "*.[ch]": "sources in C",
    "*.[ch]pp": "sources in C++",
    "*.pyx": "sources in Cython",
    "*.px[di]": "declarations in Cython",
    "/boto3/examples/": "examples of boto3's documentation",
    "/botocore/**/examples-1.json*": "examples of boto3's documentation",
    "/google/adk/cli/browser/": "web pages of `adk web`, 9 MB",
    "/litellm/proxy/_experimental/": "web pages of litellm's proxy server, 19 MB",
}
"""Patterns of the files to delete from installed distributions, with the reason."""
SERVICES = frozenset({"dynamodb", "kms", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""Names of the AWS services used by aion and by boto3's sign-in. Packages always contain their boto models."""
BOTOS_OWN = frozenset({"boto3", "botocore", "s3transfer"})
"""Names of boto's own distributions, which quote the names of all services."""
_MODEL = re.compile(r"(?:boto3|botocore)/data/([^/]+)/")
_USES_BOTO = re.compile(rb"^\s*(?:import|from)\s+(?:aio)?boto(?:3|core)\b", re.MULTILINE)
_QUOTED = re.compile(rb"[\"']([a-z0-9-]+)[\"']")
# pip's own files of a distribution. Libraries read the other ones, and licences require some in every copy.
_PIPS_OWN = re.compile(r"[^/]+\.dist-info/(?:RECORD|WHEEL|INSTALLER|REQUESTED|direct_url\.json|uv_\w+\.json|sboms/.*)")


def delete_dead_weight(folder: Path) -> None:
    """Delete the files of DEAD_WEIGHT from a folder of installed distributions."""
    for name in GitIgnoreSpec.from_lines(DEAD_WEIGHT).match_tree_files(folder):
        (folder / name).unlink()


def strip_libraries(folder: Path) -> None:
    """Remove the debug symbols from all shared libraries in the folder."""
    for library in folder.rglob("*.so*"):
        if library.is_file():
            before = library.read_bytes()
            after = stripped(before)
            if len(after) < len(before):
                library.write_bytes(after)


def compile_modules(folder: Path, python: str, modules: Sequence[Path] | None = None) -> None:
    """Compile these modules of the folder, by default all, to .pyc files, if this machine has that Python version.

    A function's file system is read-only: without .pyc files each cold start compiles its imports again. Python does not
    check these .pyc files against the times of their sources, which differ after unpacking.
    """
    program = interpreter(python)
    files = sorted(folder.rglob("*.py") if modules is None else modules)
    if program is None:
        return
    flags = ["-P", "-s", "-W", "ignore", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-i", "-"]
    command = [program, *flags, "-s", str(folder), "-p", TASK_ROOT]

    def compile_share(number: int) -> None:
        done = subprocess.run(  # noqa: S603 - no shell
            command,
            input="\n".join(map(str, files[number::_SHARES])),
            env={"PYTHONHASHSEED": "0"},  # so that sets in the compiled code have the same order in every process
            text=True,
            capture_output=True,
            umask=0o022,  # Lambda's user reads the files
            check=False,  # some distributions contain templates that are not valid Python
        )
        if "Traceback" in done.stderr:
            raise BuildError(f"cannot compile the package's modules.\n{done.stderr}")

    # The bytes of a .pyc file depend on what its process has compiled before: each process gets the same files everywhere.
    with ThreadPoolExecutor() as executor:
        list(executor.map(compile_share, range(min(_SHARES, len(files)))))


def compiler(python: str) -> str:
    """Return version and build of the Python that compiles the modules, or "" without one. Its .pyc files depend on them."""
    program = interpreter(python)
    return compiler_version(program) if program else ""


def compiled(module: str, python: str) -> str:
    """Return the relative path of the .pyc file of a module with this relative path."""
    folder, _, name = module.rpartition("/")
    return (
        f"{folder}{'/' if folder else ''}__pycache__/{name.removesuffix('.py')}.cpython-{python.replace('.', '')}.pyc"
    )


def boto_words(files: Iterable[Path]) -> set[str]:
    """Return all quoted words in the Python files if one of the files imports boto3 or botocore, else an empty set.

    Code quotes the names of its AWS services, as in `client("s3")`. The package contains only these services' models.
    """
    texts = [file.read_bytes() for file in files if file.suffix == ".py"]
    if not any(b"boto" in text and _USES_BOTO.search(text) for text in texts):
        return set()
    return {word.decode() for text in texts for word in _QUOTED.findall(text)}


def is_needed(place: str, services: Iterable[str]) -> bool:
    """Return False for pip's own files, and for a boto model of another service than these."""
    model = _MODEL.match(place)
    return model[1] in services if model else not _PIPS_OWN.fullmatch(place)
