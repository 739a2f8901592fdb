"""Console's files: headers, size, and requests that belong to the agents."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from aion_core.web.console import MEDIA_TYPES, ConsoleMiddleware
from tests.support.server import ROOT

HTML = {"accept": "text/html,application/xhtml+xml"}


STATIC = ROOT / "aion_core" / "web" / "static"


def client(features: Mapping[str, Any] | None = None) -> httpx.AsyncClient:
    app = ConsoleMiddleware(PlainTextResponse("the agent's"), features)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def test_root_path_serves_console_only_to_browsers() -> None:
    async with client() as http:
        page = await http.get("/", headers=HTML)
        assert page.headers["content-type"].startswith("text/html")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert (await http.get("/", headers={"accept": "application/json"})).text == "the agent's"
        assert (await http.post("/", headers=HTML)).text == "the agent's"
        assert (await http.get("/tasks/1", headers=HTML)).text == "the agent's"


@pytest.mark.parametrize(("path", "up"), [("/agents/weather/", "../../"), ("/agents/weather", "../")])
async def test_path_of_agent_serves_console_only_to_browsers(path: str, up: str) -> None:
    """Behind the stage of an API nobody knows the root's path, so all paths in the page are relative."""
    async with client() as http:
        page = await http.get(path, headers=HTML)
        names = re.findall(r'(?:href|src)="([^"#]+)"', page.text)
        assert {name for name in names if not name.startswith("data:")} >= {f"{up}console/console.js", f"{up}docs"}
        files = [await http.get(str(page.url.join(name))) for name in names if "console/" in name]
        assert {file.status_code for file in files} == {200}
        assert (await http.get(path, headers={"accept": "application/json"})).text == "the agent's"
        assert (await http.post(path, headers=HTML)).text == "the agent's"
        for other in ("/agents/", "/agents/weather/tasks", "/agents/weather/.well-known/agent-card.json"):
            assert (await http.get(other, headers=HTML)).text == "the agent's"


@pytest.mark.parametrize("raw_path", [b"/prod", b"/prod/"])
async def test_stage_without_slash_is_redirected_to_page(raw_path: bytes) -> None:
    """Relative paths of a page at `/prod` would begin at the root of the host."""

    async def at_stage(scope: Scope, receive: Receive, send: Send) -> None:
        await ConsoleMiddleware(PlainTextResponse("the agent's"))({**scope, "raw_path": raw_path}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(at_stage), base_url="http://test/prod/") as http:
        page = await http.get("http://test/", headers=HTML)
    assert (page.status_code, page.headers.get("location")) == (
        (200, None) if raw_path.endswith(b"/") else (307, "prod/")
    )


async def test_console_files_load_nothing_from_other_origins() -> None:
    async with client() as http:
        names = [*re.findall(r'(?:href|src)="console/([^"]+)"', (await http.get("/", headers=HTML)).text)]
        for name in names:
            text = (await http.get(f"/console/{name}")).text
            names += [each for each in re.findall(r'from "\./([^"]+)"', text) if each not in names]
        answers = [await http.get(f"/console/{name}") for name in ["index.html", *names]]
    assert {answer.status_code for answer in answers} == {200}
    texts = "".join(answer.text for answer in answers).replace(
        "http://www.w3.org/2000/svg", ""
    )  # the name of a namespace
    assert not re.search(r"https?://(?!$)[a-z]", texts)
    assert {answer.headers["content-type"].partition(";")[0] for answer in answers} == set(MEDIA_TYPES.values()) - {
        "application/json"
    }
    unused = {file.name for file in STATIC.iterdir()} - {"index.html", *names}
    assert unused == {"api.css", "api.html", "api.js", "openapi.json.gz"}


def test_static_files_of_console_stay_below_size_limit() -> None:
    """The page of the OpenAPI document is not the console's."""
    own = [file for file in STATIC.iterdir() if file.stem not in ("api", "openapi.json")]
    assert sum(file.stat().st_size for file in own) <= 112 * 1024


async def test_unchanged_console_file_is_not_sent_again() -> None:
    async with client() as http:
        first = await http.get("/console/console.js")
        again = await http.get("/console/console.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = await http.head("/console/console.js")
        assert (head.headers["content-length"], head.content) == (str(len(first.content)), b"")
        assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/console/missing.js", "/console/%2e%2e/settings.py", "/console/"])
async def test_unknown_console_file_is_not_found(path: str) -> None:
    async with client() as http:
        assert (await http.get(path)).status_code == 404


async def test_console_page_reads_features_of_further_routes() -> None:
    async with client() as deployed, client({"development": True, "receiver": "http://test/x"}) as development:
        known = {"agent": "", "development": False, "receiver": ""}
        assert (await deployed.get("/console/features.json")).json() == known
        assert (await development.get("/console/features.json")).json() == {
            "agent": "",
            "development": True,
            "receiver": "http://test/x",
        }
        assert (await deployed.post("/console/receiver")).status_code == 405


async def test_api_page_and_its_openapi_document_are_served() -> None:
    async with client() as http:
        page, document = await http.get("/docs"), await http.get("/openapi.json")
        names = re.findall(r'(?:href|src)="(console/api[^"]+)"', page.text)
        assert {(await http.get(f"/{name}")).status_code for name in names} == {200}
        assert (await http.get("/docs/more")).text == "the agent's"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert document.headers["content-type"] == "application/json"
    assert [server["url"] for server in document.json()["servers"]] == ["/", "/agents/{agent}"]
    assert "/message:send" in document.json()["paths"]
