"""Clients in Chromium: the example's page, its JavaScript client, and the official SDK.

The server requires API keys. It has another origin than the pages, and allows theirs under `cors` in aion.yaml.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from aion_core.auth.schemes.api_key import make_key
from aion_core.bootstrap import build_app
from aion_core.clock import SystemClock
from aion_core.settings import Settings
from aion_tools.operator.bootstrap import build_keys
from tests.support.debian import ProgramMissing
from tests.support.e2e.browser import browser_page, pages
from tests.support.environments import NodeMissing, node_with
from tests.support.listening import free_port, listening
from tests.support.server import ROOT

AION_YAML = """
aion:
  security: {schemes: {key: {type: api-key}}}
  cors: {origins: [%s], headers: [X-Trace]}
  agents:
    echo: {path: %s/examples/echo/agent.py:graph, name: Echo}
    waiting: {path: waiting_agent.py:graph}
"""
WAITING_AGENT = """
import asyncio

from langchain_core.messages import AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph

from aion.langgraph.stream import emit_message


async def wait(state, writer):
    emit_message(writer, AIMessageChunk(content="One moment.", id="call"))
    await asyncio.Event().wait()


graph = StateGraph(MessagesState).add_node("wait", wait).add_edge(START, "wait").compile()
"""
TEXT = "The quick brown \U0001f98a jumps over the lazy \U0001f415."


@dataclass
class Setup:
    """Browser page, the agent server's URL, an API key, and the origins of the example's page and of the SDK's."""

    page: Page
    url: str
    key: str
    example: str
    sdk: str

    def log_of(self, script: str) -> list[str]:
        """Run a script of docs/browser.md in the page; return the lines that it logs."""
        for name, value in {"https://agents.example.com": self.url, "aion_…": self.key, "./a2a.js": "/a2a.js"}.items():
            script = script.replace(name, value)
        logged: list[str] = []
        self.page.on("console", lambda message: logged.append(message.text))
        origin = 'from "/'
        script = script.replace(origin, f'from "{self.page.evaluate("location.origin")}/')
        run = "async (script) => import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' }))).then(() => {})"
        self.page.evaluate(run, script)
        return logged

    def run(self, script: str, path: str = "/a2a.js") -> Any:
        """Run JavaScript in the page. It can use `module` (imported from the path), `url` and `key`."""
        function = f"async ([path, url, key]) => {{ const module = await import(path); {script} }}"
        return self.page.evaluate(function, [path, self.url, self.key])


pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("browser")
    try:
        with (
            pages(ROOT / "examples" / "browser") as example,
            pages(node_with(ROOT / "tests" / "support" / "js")) as sdk,
        ):
            url = f"http://127.0.0.1:{(port := free_port())}"
            settings = configured(folder, [example, sdk], url)
            key = make_key("alice", now=SystemClock().now())
            asyncio.run(build_keys(settings).add(key.record))
            with listening(build_app(settings), port=port), browser_page("about:blank") as page:
                yield Setup(page, url, key.text, example, sdk)
    except (ProgramMissing, NodeMissing) as missing:
        pytest.skip(f"NOT PROVEN: clients in a browser. {missing}")


def configured(folder: Path, origins: list[str], url: str) -> Settings:
    (folder / "aion.yaml").write_text(AION_YAML % (", ".join(origins), ROOT))
    (folder / "waiting_agent.py").write_text(WAITING_AGENT)
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder), "AION_CONFIG": str(folder / "aion.yaml")}
    return Settings.from_environ({**environ, "AION_BASE_URL": url})


@pytest.fixture
def example(setup: Setup) -> Setup:
    """Open the page of examples/browser."""
    setup.page.goto(f"{setup.example}/index.html")
    return setup


# ── The example's page ────────────────────────────────────────────────────────────────────────────────────────────────


def connect(example: Setup, path: str = "", key: str | None = None) -> Page:
    page = example.page
    page.fill("[name=url]", f"{example.url}{path}")
    page.fill("[name=key]", example.key if key is None else key)
    page.click("text=Connect")
    return page


def send(page: Page, text: str) -> None:
    page.fill("[name=text]", text)
    page.click("text=Send")


def test_chat_page_shows_streamed_answers(example: Setup) -> None:
    page = connect(example)
    expect(page.locator("#name")).to_have_text("Echo")
    for number, text in enumerate((TEXT, "And again.")):
        send(page, text)
        expect(page.locator(".agent").nth(number)).to_have_text(text)
        expect(page.locator("[name=text]")).to_be_enabled()
    assert page.locator(".error").count() == 0


def test_chat_page_cancels_running_task(example: Setup) -> None:
    page = connect(example, "/agents/waiting")
    send(page, "Wait for me.")
    expect(page.locator(".agent")).to_have_text("One moment.")
    page.click("text=Cancel")
    expect(page.locator(".state")).to_have_text("canceled")
    expect(page.locator("[name=text]")).to_be_enabled()


def test_chat_page_shows_authentication_error(example: Setup) -> None:
    page = connect(example, key="wrong")
    send(page, TEXT)
    expect(page.locator(".error")).to_contain_text("The caller is not authenticated.")


# ── The example's client ──────────────────────────────────────────────────────────────────────────────────────────────

CONNECT = 'const client = await module.A2AClient.connect(url, { "X-API-Key": key, "X-Trace": "1" });'
TEXT_OF = """
    const textOf = (events) => events.reduce((text, { artifactUpdate: update }) =>
        update ? (update.append ? text : "") + update.artifact.parts.map((part) => part.text).join("") : text, "");
    const state = (events) => events.at(-1).statusUpdate?.status.state;
"""


def test_fetch_client_resumes_stream_after_last_received_event(example: Setup) -> None:
    """Reconnect once after each event, with its id: no later event is missing or repeated."""
    heard = example.run(f"""
        {CONNECT}
        const all = [];
        for await (const event of client.send({TEXT!r})) all.push(event);
        const {{ id }} = all[0].task;
        const rests = [];
        for (const event of all.slice(0, -1)) {{
            const rest = [];
            for await (const missed of client.stream("SubscribeToTask", {{ id }}, {{ lastEventId: event.id }})) {{
                rest.push(missed);
            }}
            rests.push([event.id, rest]);
        }}
        return {{ all, rests }};
    """)
    assert [event["id"] for event in heard["all"][:2]] == ["1", "2"]
    stored = [event for event in heard["all"] if "." not in event["id"]]
    for last, rest in heard["rests"]:
        followed = [event for event in rest if "." not in event["id"]]
        assert followed == [event for event in stored if int(event["id"]) > int(last.partition(".")[0])], last


def test_fetch_client_survives_lost_connections(example: Setup) -> None:
    """Break the first three connections after some bytes; the client reconnects, and the whole text arrives."""
    heard = example.run(f"""
        {CONNECT} {TEXT_OF}
        const original = window.fetch;
        let connections = 0;
        window.fetch = async (...request) => {{
            const response = await original(...request);
            if (++connections > 3) return response;
            let left = 700 * connections;
            const cut = new TransformStream({{
                transform(chunk, controller) {{
                    controller.enqueue(chunk.subarray(0, left));
                    left -= chunk.length;
                    if (left <= 0) controller.error(new TypeError("network error"));
                }},
            }});
            return new Response(response.body.pipeThrough(cut), response);
        }};
        try {{
            const all = [];
            for await (const event of client.send({TEXT!r}, {{ retryMs: 0 }})) all.push(event);
            return {{ connections, state: state(all), ids: all.map((event) => event.id), message: all.at(-1) }};
        }} finally {{
            window.fetch = original;
        }}
    """)
    assert heard["connections"] > 1
    assert heard["state"] == "TASK_STATE_COMPLETED"
    assert heard["message"]["statusUpdate"]["status"]["message"]["parts"] == [{"text": TEXT}]
    stored = [identifier for identifier in heard["ids"] if "." not in identifier]
    assert stored == list(dict.fromkeys(stored)), "no stored event is repeated"


def test_fetch_client_raises_error_with_code(example: Setup) -> None:
    heard = example.run(f"""
        {CONNECT}
        const caught = async (call) => {{
            try {{ await call(); }} catch ({{ name, code, status, message }}) {{ return {{ name, code, status, message }}; }}
        }};
        const stranger = new module.A2AClient(client.card);
        const subscription = async () => {{ for await (const _ of client.stream("SubscribeToTask", {{ id: "no" }})); }};
        const challenge = (await fetch(url, {{ method: "POST" }})).headers.get("WWW-Authenticate");
        const rest = await fetch(`${{url}}/tasks/no`, {{ headers: client.headers }});
        return {{
            unknown: await caught(() => client.call("GetTask", {{ id: "no" }})),
            stream: await caught(subscription),
            stranger: await caught(() => stranger.call("ListTasks", {{}})),
            challenge,
            rest: [rest.status, (await rest.json()).error.status],
        }};
    """)
    assert heard["unknown"].items() >= {"name": "A2AError", "code": -32001, "status": 200}.items()
    assert heard["stream"]["code"] == -32001
    assert heard["stranger"].items() >= {"code": 401, "status": 401}.items()
    assert heard["challenge"] == 'ApiKey realm="aion", header="X-API-Key"'
    assert heard["rest"] == [404, "NOT_FOUND"]


def test_browser_page_can_read_card_etag(example: Setup) -> None:
    status, headers = example.run("""
        const card = `${url}/.well-known/agent-card.json`;
        const etag = (await fetch(card)).headers.get("ETag");
        const again = await fetch(card, { headers: { "If-None-Match": etag }, cache: "no-store" });
        return [again.status, etag];
    """)
    assert (status, headers[0]) == (304, '"')


def test_page_of_other_origin_reads_only_public_documents(example: Setup) -> None:
    """Serve the page from 127.0.0.1, an origin that `cors` does not allow: the page reads only public documents."""
    example.page.goto(f"{example.example.replace('localhost', '127.0.0.1')}/index.html")
    heard = example.run(f"""
        {CONNECT}
        const blocked = await client.call("ListTasks", {{}}).catch((error) => error.name);
        return [client.card.name, blocked];
    """)
    assert heard == ["Echo", "TypeError"]


# ── The SDK ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sdk_sends_api_key_from_browser(setup: Setup) -> None:
    """Pass the SDK a fetch function that adds the header `X-API-Key` to each request."""
    setup.page.goto(f"{setup.sdk}/page.html")
    heard = setup.run(
        f"""
        const fetchImpl = (target, init = {{}}) =>
            fetch(target, {{ ...init, headers: {{ ...Object.fromEntries(new Headers(init.headers)), "X-API-Key": key }} }});
        return await module.talk(url, {TEXT!r}, fetchImpl);
        """,
        "/steps.mjs",
    )
    assert heard["sent"]["status"]["message"]["parts"][0]["text"] == TEXT
    assert heard["streamed"][-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "not authenticated" in heard["refused"]["message"]


# ── The guide ─────────────────────────────────────────────────────────────────────────────────────────────────────────

GUIDE = (ROOT / "docs" / "browser.md").read_text(encoding="utf-8")
SENDS, RESUMES, USES_SDK = re.findall(r"^```js\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
QUESTION = "Where are my keys?"


def test_browser_guide_example_client_logs_streamed_answer(example: Setup) -> None:
    logged = example.log_of(SENDS)
    assert re.fullmatch("task [0-9a-f-]{36}", logged[0])
    assert "".join(logged[2:-2]) == QUESTION
    assert [logged[1], logged[-1]] == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


def test_browser_guide_example_client_resumes_stream(example: Setup) -> None:
    logged = example.log_of(RESUMES)
    assert logged[0] == "2 id,statusUpdate"
    assert logged[-1].endswith("id,statusUpdate")


def test_browser_guide_example_with_sdk_logs_events(setup: Setup) -> None:
    setup.page.goto(f"{setup.sdk}/page.html")
    logged = setup.log_of(USES_SDK)
    assert (logged[0], logged[-1]) == ("task", "statusUpdate")
