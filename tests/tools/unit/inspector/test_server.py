"""The console's own routes: the page, its features, and the receiver of webhooks."""

import json
import time

import httpx
import pytest

from aion_core.agent_client.documents import http_client
from aion_core.agent_client.limits import OF_COMMANDS
from aion_tools.inspector.remote import RemoteAgent
from aion_tools.inspector.server import build_inspector
from tests.support.asgi import call
from tests.support.foreign import sdk_server
from tests.tools.unit.inspector.consoles import console_on


def test_page_manifest_and_features_name_server() -> None:
    with sdk_server() as url, console_on(url) as console:
        page = console.http.get(console.url, headers={"Accept": "text/html"})
        at_agent = console.http.get(f"{console.agent}/", headers={"Accept": "text/html"})
        manifest = console.http.get(f"{console.url}/.well-known/manifest.json").json()
        trees = console.http.post(f"{console.agent}/console/markdown", json={"texts": ["**bold**"]})
        card = console.http.get(f"{console.agent}/.well-known/agent-card.json")
        relayed = console.call("GetTask", id="none")
    for each in (page, at_agent, trees, card, relayed):
        assert each.headers.get_list("x-content-type-options") == ["nosniff"], each.url
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (page.status_code, at_agent.status_code, trees.status_code) == (200, 200, 200)
    agent_id = console.features["agent"]
    assert manifest == {"endpoints": {agent_id: f"/agents/{agent_id}"}}
    assert agent_id == url.removeprefix("http://").replace(":", "-")
    assert (console.features["remote"], console.features["development"]) == (url, False)


def test_receiver_shows_posts_of_server_on_this_machine() -> None:
    with sdk_server() as url, console_on(url) as console:
        receiver = console.features["receiver"]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "say hi"}]}
        configuration = {"taskPushNotificationConfig": {"url": receiver}}
        task = console.call("SendMessage", message=message, configuration=configuration).json()["result"]["task"]

        def posts() -> list[dict[str, object]]:
            found = console.http.get(f"{console.agent}/console/webhooks", params={"taskId": task["id"]}).json()
            assert found["webhooks"] is None
            return list(found["posts"])

        while len(posts()) < 2:
            time.sleep(0.02)
        assert {(post["status"], post["signed"]) for post in posts()} == {(204, None)}
        answered = console.http.post(f"{console.agent}/console/receiver", json={"status": 500})
        assert (answered.status_code, httpx.post(receiver, json={}).status_code) == (200, 500)
        assert console.http.post(f"{console.agent}/console/receiver", json={"status": 200}).status_code == 400


async def test_console_on_server_elsewhere_has_no_receiver() -> None:
    url = "https://agents.example.com"
    async with http_client(url, None, httpx.Timeout(1), OF_COMMANDS) as http:
        app = build_inspector(RemoteAgent(url, http, lambda _: None), 8400)
        answer = await call(app, "GET", "/console/features.json", b"", {"host": "127.0.0.1:8400"})
        script = await call(app, "GET", "/console/inspect.js", b"", {"host": "127.0.0.1:8400"})
    assert (json.loads(answer.body)["receiver"], script.status) == ("", 404)


@pytest.mark.parametrize(
    ("media_type", "body", "status"),
    [
        ("text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("application/json", b"{", 400),
        ("application/json", b"[]", 400),
        ("application/json", b" " * 17_000_000, 413),
    ],
)
def test_requests_of_other_forms_are_refused(media_type: str, body: bytes, status: int) -> None:
    with sdk_server() as url, console_on(url) as console:
        answer = console.http.post(console.agent, content=body, headers={"Content-Type": media_type})
    assert answer.status_code == status


def test_request_of_other_page_is_refused() -> None:
    with sdk_server() as url, console_on(url) as console:
        for headers in (
            {"Origin": "http://127.0.0.1:1"},
            {"Host": "attacker.example"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert console.call("ListTasks", headers=headers).status_code == 403
