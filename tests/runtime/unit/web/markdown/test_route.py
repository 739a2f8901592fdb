"""The console's request for Markdown: limits, the caller's credentials, and the process that renders."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from aion_core.web.markdown.route import LIBRARIES, MAX_CHARACTERS, Renderer, markdown_routes
from tests.support.service import http

PATH = "/agents/a/console/markdown"


async def post(body: Any) -> httpx.Response:
    async with http(Starlette(routes=markdown_routes(["/agents/a"]))) as client:
        return await client.post(PATH, json=body)


async def test_trees_of_texts_are_answered_in_order() -> None:
    answer = await post({"texts": ["# A\n\nb", "", ", [{" * 5000]})
    assert [len(each["nodes"]) for each in answer.json()] == [2, 0, 1]
    assert answer.json()[0]["nodes"][0] == {"tag": "h1", "children": ["A"]}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("texts", [None, "a", [1], ["a" * MAX_CHARACTERS, "b"]])
async def test_request_without_texts_or_with_too_long_ones_is_refused(texts: Any) -> None:
    answer = await post({"texts": texts})
    assert (answer.status_code, "texts has to be" in answer.text) == (400, True)


async def test_texts_of_greatest_length_together_are_rendered() -> None:
    assert (await post({"texts": ["a" * (MAX_CHARACTERS - 1), "b"]})).status_code == 200


async def test_markdown_without_its_libraries_is_not_implemented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    answer = await post({"texts": ["a"]})
    assert (answer.status_code, "aion-lambda[console]" in answer.text) == (501, True)


def test_renderer_starts_again_after_its_process_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    renderer = Renderer()
    assert renderer.trees(["a"]).startswith(b"[{")
    process = renderer._process
    assert process is not None
    assert b"wJalrXUtnFEMI" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert renderer.trees(["b"]).startswith(b"[{")


async def test_markdown_needs_credentials_of_agent_and_console(tmp_path: Path) -> None:
    (tmp_path / "ex.py").write_text("executor = None\n")
    config = "aion:\n  security: {schemes: {key: {type: api-key}}, require: [{key: []}]}\n  agents: {a: {path: 'ex.py:executor'}}\n"
    (tmp_path / "aion.yaml").write_text(config)
    for auth, console, status in (("on", "on", 401), ("off", "on", 200), ("off", "off", 404)):
        environ = {
            "AION_STORE": "memory",
            "AION_CONFIG": str(tmp_path / "aion.yaml"),
            "AION_AUTH": auth,
            "AION_CONSOLE": console,
        }
        async with http(build_app(Settings.from_environ({**environ, "AION_BASE_URL": "http://test"}))) as client:
            assert (await client.post(f"http://127.0.0.1{PATH}", json={"texts": ["a"]})).status_code == status
