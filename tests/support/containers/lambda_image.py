"""Lambda's image for Python: AWS's if the engine has it or can pull it, else one with its layout, built on this machine.

The built image has Debian's smallest system, this machine's Python 3.13, AWS's runtime client, and the runtime interface
emulator of SAM CLI, each verified by a signature or a hash. Differences from AWS's image: Debian 12 with glibc 2.36 instead
of Amazon Linux 2023 with glibc 2.34.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aion_tools.deploy import sam_install
from aion_tools.package.cache import file_lock
from aion_tools.programs import compiler_version, interpreter, machine_architecture
from tests.support import debian
from tests.support.containers.engine import ContainersMissing, DockerEngine, DockerError
from tests.support.e2e.runtime_emulator import CLIENT, LAMBDA_PYTHON, emulator, folder_with
from tests.support.server import ROOT

IMAGE = f"public.ecr.aws/lambda/python:{LAMBDA_PYTHON}"
NAMES = (IMAGE, f"{IMAGE}-{machine_architecture()}")
"""Names of the image: ministack uses the first one, SAM CLI the second one."""
FILES = Path(__file__).with_name("image")
PULLED_IN = 300
SUITE = "bookworm"
LIBRARIES = "ca-certificates,libssl3,libffi8,libsqlite3-0,libbz2-1.0,liblzma5,libreadline8,zlib1g,libexpat1,libuuid1,libncursesw6"
MADE_HERE = "aion.test.image"
"""Label of the images built here, and of the images that SAM CLI builds from them."""
SETTINGS = (
    f"LABEL {MADE_HERE}=1",
    "ENV LANG=C.UTF-8",
    "ENV TZ=:/etc/localtime",
    "ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin/:/bin:/opt/bin",
    "ENV LD_LIBRARY_PATH=/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:/var/task:/var/task/lib:/opt/lib",
    "ENV LAMBDA_TASK_ROOT=/var/task",
    "ENV LAMBDA_RUNTIME_DIR=/var/runtime",
    "WORKDIR /var/task",
    'ENTRYPOINT ["/lambda-entrypoint.sh"]',
)


@contextmanager
def lambda_image(engine: DockerEngine) -> Iterator[None]:
    """Make sure that the engine has Lambda's image under all NAMES until the block ends. Raise ContainersMissing.

    Afterwards, the engine has neither an image built here, which its other users would take for AWS's, nor a new name.
    """
    missing = [name for name in NAMES if not engine.has(name)]
    found = next((name for name in NAMES if name not in missing), None)
    try:
        if missing:
            found = found or _pulled_or_built(engine)
            for name in missing:
                engine.docker("tag", found, name)
        _check(engine)
        yield
    finally:
        made = engine.docker("images", "--quiet", "--filter", f"label={MADE_HERE}").split() if missing else []
        if gone := [name for name in (*missing, *made) if engine.has(name)]:
            engine.docker("rmi", "--force", *dict.fromkeys(gone))


def _pulled_or_built(engine: DockerEngine) -> str:
    """Return the name of the image: from the cache, from AWS, or built. A built image is cached as a file."""
    python = interpreter(LAMBDA_PYTHON)
    file = _cached(python) if python else None
    if file is None or not file.exists():
        try:
            engine.docker("pull", "--quiet", IMAGE, timeout=PULLED_IN)
        except DockerError as error:
            if python is None or file is None:
                why = f"Lambda's image cannot be pulled ({error}) or built, because Python {LAMBDA_PYTHON} is missing"
                raise ContainersMissing(f"{why}: uv python install {LAMBDA_PYTHON}") from error
            with file_lock(file):
                if not file.exists():
                    _build(file, python)
        else:
            return IMAGE
    changes = [part for setting in SETTINGS for part in ("--change", setting)]
    engine.docker("import", *changes, str(file), NAMES[-1])
    return NAMES[-1]


def _cached(python: str) -> Path:
    """Return the place of the built image's files, named after everything that is in them."""
    recipe = hashlib.sha256(compiler_version(python).encode())
    for file in (Path(__file__), CLIENT, sam_install.REQUIREMENTS, *sorted(FILES.iterdir())):
        recipe.update(file.read_bytes())
    return ROOT / ".cache" / f"lambda-image-{recipe.hexdigest()[:20]}.tar"


def _build(file: Path, python: str) -> None:
    """Write the image's files as a tar file. Raise ContainersMissing if this machine or its network lacks a part."""
    with TemporaryDirectory(prefix="lambda-image-") as folder:
        root = Path(folder, "root")
        try:
            program = debian.program("debootstrap", package="debootstrap")
        except debian.ProgramMissing as error:
            raise ContainersMissing(f"Lambda's image can neither be pulled nor built: {error}") from error
        # debootstrap checks the signature of Debian's release, and by it the hash of each package.
        command = [program, "--variant=minbase", "--force-check-gpg", f"--include={LIBRARIES}", SUITE, str(root)]
        done = subprocess.run(command, env={**os.environ, "PATH": debian.PATH}, capture_output=True, text=True)
        if done.returncode:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
            raise ContainersMissing(f"Lambda's image can neither be pulled nor built; debootstrap failed:\n{said}")
        root.chmod(0o755)
        _add_python(root / "var" / "lang", python)
        _add_runtime(root, python)
        for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
            shutil.rmtree(root / name)
        for old in file.parent.glob("lambda-image-*.tar"):
            old.unlink()
        partial = file.with_suffix(".partial")
        with tarfile.open(partial, "w") as tar:
            tar.add(root, ".")
        partial.rename(file)


def _add_python(target: Path, python: str) -> None:
    """Copy Python without its tests and without this machine's packages."""
    prefix = Path(
        subprocess.check_output([python, "-I", "-c", "import sys; print(sys.base_prefix)"], text=True).strip()
    )
    left_out = ("__pycache__", "test", "site-packages", "idlelib", "tkinter", "_tkinter*", "ensurepip")
    name = f"python{LAMBDA_PYTHON}"
    shutil.copytree(
        prefix / "lib" / name, target / "lib" / name, ignore=shutil.ignore_patterns(*left_out), symlinks=True
    )
    (target / "bin").mkdir()
    shutil.copy2(prefix / "bin" / name, target / "bin" / name)
    (target / "bin" / "python3").symlink_to(name)
    library = prefix / "lib" / f"lib{name}.so.1.0"
    if library.exists():
        shutil.copy2(library, target / "lib")


def _add_runtime(root: Path, python: str) -> None:
    """Copy AWS's runtime client, the scripts that start it, and the runtime interface emulator."""
    shutil.copytree(folder_with(CLIENT, python, LAMBDA_PYTHON), root / "var" / "runtime")
    for name, place in (("bootstrap", "var/runtime"), ("bootstrap.py", "var/runtime"), ("lambda-entrypoint.sh", ".")):
        shutil.copy(FILES / name, root / place)
    shutil.copy(emulator(), root / "usr" / "local" / "bin" / "aws-lambda-rie")
    for name in ("var/task", "opt"):
        (root / name).mkdir(exist_ok=True)


def _check(engine: DockerEngine) -> None:
    """Raise ContainersMissing if Python does not run in the image, or does not reach servers on this machine."""
    with socket.create_server((engine.gateway, 0)) as listener:
        code = f"import ctypes, socket, sqlite3, ssl; socket.create_connection({listener.getsockname()!r}, timeout=30)"
        try:
            engine.docker("run", "--rm", "--entrypoint", f"/var/lang/bin/python{LAMBDA_PYTHON}", IMAGE, "-c", code)
        except DockerError as error:
            raise ContainersMissing(
                f"containers of {IMAGE} do not run or do not reach this machine: {error}"
            ) from error
