"""Checks of a deployment's URL by `aion doctor`, on healthy and broken servers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import operating
from tests.support.issuer import issuing
from tests.support.operating import RunCommand
from tests.tools.unit.cli.checks.doctor_command import ANSWERING, OPEN, ServedAgents, doctor, run_doctor


@pytest.fixture
def run() -> RunCommand:
    run = operating.runs({})
    return lambda *arguments, **options: run("doctor", *arguments, **options)


def test_doctor_reads_card_of_healthy_server_at_both_paths(run: RunCommand, tmp_path: Path) -> None:
    with ServedAgents(tmp_path, OPEN, ANSWERING) as url:
        code, results = run_doctor(run, url, "--config", "/nowhere.yaml")
    assert (code, {each["status"] for each in results.values()}) == (0, {"ok"})
    assert "Helper" in results["card at /.well-known/agent-card.json"]["message"]
    assert url in results["card at /.well-known/agent.json"]["message"]
    assert "Anybody on this machine may call" in results["callers"]["message"]


KEYS = "aion: {security: {schemes: {key: {type: api-key}}}, agents: {helper: {path: agent.py}}}"


@pytest.mark.parametrize("text", [OPEN, KEYS], ids=["open", "keys"])
def test_doctor_suggests_agent_paths_if_url_path_is_wrong(run: RunCommand, tmp_path: Path, text: str) -> None:
    with ServedAgents(tmp_path, text) as url:
        code, results = run_doctor(run, f"{url}/agent/helper", "--config", "/nowhere.yaml")
    assert code == 1
    hint = f"Check the path of the URL: the default agent is at {url}, and each agent is at {url}/agents/ID."
    assert results["card at /.well-known/agent-card.json"]["next"] == hint


def test_doctor_fails_if_card_names_url_of_another_server(run: RunCommand, tmp_path: Path) -> None:
    with ServedAgents(tmp_path, OPEN, AION_BASE_URL="http://127.0.0.1:8000") as url:
        code, results = run_doctor(run, url, "--config", "/nowhere.yaml")
    assert code == 1
    wrong = results["card at /.well-known/agent-card.json"]
    assert wrong["message"] == f"The card names http://127.0.0.1:8000 instead of {url}."
    assert f"BaseUrl={url}" in wrong["next"]


def test_doctor_checks_authentication_and_issuer_keys(run: RunCommand, tmp_path: Path) -> None:
    with issuing() as issuer:
        issuer.add("k-1")
        schemes = (
            f"{{login: {{type: bearer-jwt, issuer: '{issuer.url}', audience: a, jwks_url: '{issuer.url}/jwks.json'}}}}"
        )
        text = f"aion: {{security: {{schemes: {schemes}}}, agents: {{helper: {{path: agent.py}}}}}}"
        with ServedAgents(tmp_path, text, ANSWERING) as url:
            token = {"TOKEN": issuer.token(aud="a")}
            code, results = run_doctor(run, url, "--config", tmp_path / "aion.yaml", env=token)
            assert code == 0, results
            assert results["callers"]["message"].startswith("Callers authenticate by Bearer")
            assert results[f"keys of {issuer.url}"]["status"] == "ok"
            issuer.documents["/jwks.json"] = {"no": "keys"}
            code, results = run_doctor(run, url, "--config", tmp_path / "aion.yaml")
    assert code == 1
    assert "not a JWK set" in results[f"keys of {issuer.url}"]["message"]


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Server that behaves as API Gateway with IAM: a card with another URL for the caller AKIAME, and 403 for others.

    Without a response, it ends the connection of the caller AKIAENDS.
    """
    seen: list[str] = []
    headers: dict[str, str] = {}

    class EndpointHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            if "Credential=AKIAENDS/" in seen[-1]:
                self.close_connection = True
                return
            signed = seen[-1].startswith("AWS4-HMAC-SHA256 Credential=AKIAME/")
            body = json.dumps({"name": "x", "url": url} if signed else {"message": "Missing Authentication Token"})
            self.send_response_only(200 if signed else 403)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), EndpointHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield url, seen, headers
        server.shutdown()


def test_doctor_signs_requests_to_iam_gateway(gateway: tuple[str, list[str], dict[str, str]]) -> None:
    url, seen, headers = gateway
    headers["Date"] = "Mon, 01 Jan 2024 00:00:00 GMT"
    signing = {"AWS_ACCESS_KEY_ID": "AKIAME", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
    code, results = doctor(signing | {"AWS_DEFAULT_REGION": "eu-west-1"}, url)
    assert results["card at /.well-known/agent-card.json"]["status"] == "ok"
    assert "signed for AWS IAM" in results["callers"]["message"]
    assert "Credential=AKIAME/" in seen[-1]
    assert "/eu-west-1/execute-api/aws4_request" in seen[-1]
    # Expect a failed check of the clock, because the test's server sends a Date header that is years old.
    assert (code, results["clock"]["status"]) == (1, "FAILED")
    _, results = doctor({**signing, "AWS_ACCESS_KEY_ID": "AKIAOTHER"}, url)
    refused = results["card at /.well-known/agent-card.json"]
    assert (refused["message"], "execute-api:Invoke" in refused["next"]) == ("The response is 403.", True)


def test_doctor_fails_if_signed_request_gets_no_response(gateway: tuple[str, list[str], dict[str, str]]) -> None:
    signing = {"AWS_ACCESS_KEY_ID": "AKIAENDS", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
    code, results = doctor(signing | {"AWS_DEFAULT_REGION": "eu-west-1"}, gateway[0])
    unread = results["card at /.well-known/agent-card.json"]
    assert (code, unread["status"]) == (1, "FAILED")
    assert unread["message"] == "Not read: Server disconnected without sending a response."
    assert unread["next"].startswith("The function fails or doesn't start. See its log:")


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Mon, 01 Jan 2024 00:00:00 -0000", "clock differs from the server's by"),
        ("today", "The response has no valid Date header."),
    ],
)
def test_doctor_reads_date_header_without_time_zone(
    run: RunCommand, gateway: tuple[str, list[str], dict[str, str]], date: str, said: str
) -> None:
    url, _, headers = gateway
    headers["Date"] = date
    _, results = run_doctor(run, url, "--config", "/nowhere.yaml")
    assert said in results["clock"]["message"]


def test_doctor_fails_unreachable_url(run: RunCommand) -> None:
    with operating.taken_port() as port:
        pass
    code, results = run_doctor(run, f"http://127.0.0.1:{port}", "--config", "/nowhere.yaml")
    assert (code, list(results)) == (1, ["reachability"])
