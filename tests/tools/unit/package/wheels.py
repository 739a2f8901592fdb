"""Wheels, source distributions and package indexes for the tests of packages."""

import hashlib
import io
import tarfile
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version as installed_version
from pathlib import Path
from threading import Thread

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aion_core.loading.frameworks import extras
from aion_tools.package.functions import ALL_EXTRAS, CHOSEN_EXTRAS, agent_extras, required_by
from tests.support.server import ROOT

ONLY = '[[tool.uv.index]]\nname = "own"\nurl = "{}"\ndefault = true\n'
"""Makes an index the only one, so that no other is asked."""
HATCHLING = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
PROJECT = (
    '[project]\nname = "{name}"\nversion = "{version}"\nrequires-python = ">=3.11"\ndependencies = {dependencies}\n'
)

EXECUTOR = """from a2a.server.agent_execution import AgentExecutor
class Mine(AgentExecutor):
    async def execute(self, context, queue): ...
    async def cancel(self, context, queue): ...
agent = Mine()
"""


def pyproject(*dependencies: str, name: str = "my-agent", version: str = "0.1.0") -> str:
    """Return the table `[project]` of a pyproject.toml with these dependencies."""
    return PROJECT.format(name=name, version=version, dependencies=list(dependencies))


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files into the folder, and return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def wheel(
    folder: Path,
    name: str = "mine",
    files: Mapping[str, str | bytes] | None = None,
    *,
    version: str = "1.0",
    requires: str = "",
    tag: str = "py3-none-any",
) -> Path:
    """Write a distribution's wheel into the folder, by default with one empty module, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    written, info = folder / f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
    requirement = f"Requires-Dist: {requires}\n" if requires else ""
    content = {
        **(files or {f"{name}.py": ""}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    with zipfile.ZipFile(written, "w") as archive:
        for place, text in content.items():
            archive.writestr(place, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{place},,\n" for place in [*content, f"{info}/RECORD"]))
    return written


MODULES = {
    "a2a-sdk": ("a2a/__init__.py", "a2a/server/__init__.py", "a2a/server/agent_execution.py"),
    "fastapi": ("fastapi/__init__.py", "fastapi/middleware/__init__.py"),
    "langgraph": ("langgraph/graph.py",),
}
"""Modules of the small wheels of `requirements_of_aion`, unless it is one with the distribution's name."""


def requirements_of_aion(folder: Path) -> Path:
    """Write a small wheel for each of aion-lambda's requirements, with the installed version, and return the folder."""
    lines = required_by(*ALL_EXTRAS, *CHOSEN_EXTRAS, *agent_extras(extras()))
    for name in sorted({canonicalize_name(Requirement(line).name) for line in lines}):
        module = name.replace("-", "_")
        files = dict.fromkeys(MODULES.get(name, (f"{module}/__init__.py",)), "")
        wheel(folder, module, files, version=installed_version(name))
    return folder


def small_own_code() -> Iterator[tuple[str, Path]]:
    """Yield a few files of aion-lambda's own code, in place of `own_files`."""
    for place in ("handlers/api.py", "aion_core/clock.py", "aion_core/lambda_runtime/exec-wrapper.sh"):
        yield place, ROOT / place


def library(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """Write the sources of the distribution `mine` into the folder, and return the folder."""
    own = {"pyproject.toml": pyproject(name="mine") + HATCHLING, "mine/__init__.py": "value = 1\n"}
    return write(folder, {**own, **(files or {})})


def sdist(folder: Path, name: str, files: Mapping[str, str], version: str = "1.0") -> Path:
    """Write a source distribution with these files into the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{name}-{version}.tar.gz"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with tarfile.open(written, "w:gz") as archive:
        for place, text in {**files, "PKG-INFO": metadata}.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{place}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return written


def sha256(file: Path) -> str:
    """Return the SHA-256 hash of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def index(folder: Path, *, password: str = "") -> Iterator[str]:
    """Serve the wheels and source distributions of a folder as a package index, and yield its URL.

    The index may ask for the user `me` with a password.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = b64encode(f"me:{password}".encode()).decode()
            name = self.path.strip("/")
            file = folder / name
            body = file.read_bytes() if file.is_file() else self.page(name)
            if password and self.headers["Authorization"] != f"Basic {given}":
                self.send_error(401)
            elif not body:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream" if file.is_file() else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if self.command == "GET" else b"")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

        def page(self, name: str) -> bytes:
            files = [each for each in folder.iterdir() if canonicalize_name(each.name.split("-")[0]) == name]
            fragments = (f"#sha256={sha256(each)}" for each in files)
            links = (f'<a href="/{each.name}{end}">{each.name}</a>' for each, end in zip(files, fragments, strict=True))
            return "".join(links).encode()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        signed = f"me:{password}@" if password else ""
        yield f"http://{signed}127.0.0.1:{server.server_port}"
        server.shutdown()
