"""Parts of Lambda packages, one for each distribution."""

import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from aion_tools.package.parts import install
from aion_tools.package.plan import PackagePlan, plan

from aion_tools.programs import find_uv
from tests.tools.unit.package.wheels import hashed, wheel


def test_package_from_index_named_in_pyproject_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    written = wheel(tmp_path / "index" / "mine")
    (written.parent / "index.html").write_text(f'<a href="{written.name}">{written.name}</a>')
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{(tmp_path / 'index').as_uri()}', explicit = true }}]\n"
        "sources = { mine = { index = 'own' } }\n"
    )
    line = hashed("mine==1.0", written)
    (code,) = install(PackagePlan("ApiFunction", "arm64", "3.13", line, (), folder=tmp_path))
    assert (code / "mine.py").is_file()


@pytest.fixture
def private_index(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield the URL of a package index with the password `hunter2`, and the requirement of its distribution `mine`."""
    written = wheel(tmp_path / "index" / "mine")

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] == f"Basic {b64encode(b'me:hunter2').decode()}":
                super().do_GET()
            else:
                self.send_error(401)

        def log_message(self, *_: object) -> None: ...

    handler = partial(Handler, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:hunter2@127.0.0.1:{server.server_port}", hashed("mine==1.0", written)
        server.shutdown()


def test_password_of_index_is_not_an_argument_of_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_index: tuple[str, str]
) -> None:
    url, line = private_index
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    # The index of the project takes precedence over the developer's.
    monkeypatch.setenv("UV_INDEX", "http://127.0.0.1:9")
    program = tmp_path / "uv"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/arguments\nexec {find_uv()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("UV", str(program))
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{url}', explicit = true }}]\nsources = {{ mine = {{ index = 'own' }} }}\n"
    )
    (code,) = install(PackagePlan("ApiFunction", "arm64", "3.13", line, (), folder=tmp_path))
    assert (code / "mine.py").is_file()
    arguments = (tmp_path / "arguments").read_text()
    assert "pip install" in arguments
    assert "hunter2" not in arguments


def test_requirements_txt_of_a_distribution_is_packaged_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install `mine` from its own index, and then `other`, with an option that contains a password."""
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{tmp_path.as_uri()}' }}]\nsources = {{ mine = {{ index = 'own' }} }}\n"
    )
    lines = ["--extra-index-url http://user:password@127.0.0.1:9/"]
    for name, module in (("mine", "requirements.txt"), ("other", "other.py")):
        written = wheel(tmp_path, module, "theirs", name)
        lines.append(hashed(f"{name} @ {written.as_uri()}", written))
    (code, _) = install(PackagePlan("ApiFunction", "arm64", "3.13", "\n".join(lines), (), folder=tmp_path))
    assert (code / "requirements.txt").read_text() == "theirs"


def test_index_options_of_requirements_txt_apply_to_all_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    folder = tmp_path / "project"
    written = wheel(folder / "ours")
    (folder / "more").mkdir()
    (folder / "more" / "indexes.txt").write_text("-r ../requirements.txt\n--find-links=../ours # ours\n")
    (folder / "requirements.txt").write_text("-f ${OTHER}\n-r more/indexes.txt\nmine==1.0\nlanggraph\n")
    (folder / "agent.py").write_text("import mine\nfrom langgraph.graph import StateGraph\n")
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    monkeypatch.setenv("OTHER", folder.as_uri())
    options = f"-f ${{OTHER}}\n--find-links {folder / 'ours'}\n"
    for function in ("TaskFunction", "SweepFunction"):
        planned = plan(function, folder=folder)
        assert planned.requirements.startswith(options)
        (code,) = install(replace(planned, requirements=options + hashed("mine==1.0", written)))
        assert (code / "mine.py").is_file()
