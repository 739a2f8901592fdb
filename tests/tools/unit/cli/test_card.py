"""`aion card` on the command line."""

import json
import stat
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from aion_core.errors import AionError
from aion_tools.cli.main import aion
from tests.support.declared import AION_YAML
from tests.support.deployment import BASE_URL, at, deployed
from tests.support.downgraded import without_tls
from tests.support.isolated import isolated_imports

CARDS = (".well-known/agent-card.json", ".well-known/agent-card.json?v=2", "extendedAgentCard", "v1/card")


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(aion, ["card", *map(str, arguments)], input=stdin, catch_exceptions=True)


def refusal(*arguments: object, stdin: str | None = None) -> str:
    """Return the error message of a command that exits with code 1."""
    failed = run(*arguments, stdin=stdin)
    assert isinstance(failed.exception, AionError), failed.output
    return str(failed.exception)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "aion.yaml"
    file.write_text(AION_YAML, encoding="utf-8")
    return file


@pytest.fixture
def private(tmp_path: Path) -> Path:
    made = run("keygen", tmp_path / "private.pem", "--public", tmp_path / "public.jwk")
    assert made.exit_code == 0
    return tmp_path / "private.pem"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Serve the files in the folder over HTTP; yield the server's URL."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(config: Path, *arguments: str) -> str:
    printed = run("show", "--config", config, "--base-url", BASE_URL, *arguments)
    assert printed.exit_code == 0, printed.exception
    return printed.stdout


async def test_card_show_prints_served_card(config: Path, tmp_path: Path) -> None:
    app = deployed(tmp_path, AION_YAML)
    async with at(app) as client:
        for agent, path in (((), ""), (("helper",), ""), (("quiet",), "/agents/quiet")):
            served = (await client.get(f"{path}/.well-known/agent-card.json")).json()
            assert json.loads(shown(config, *agent)) == served
        extended = (await client.get("/agent/authenticatedExtendedCard")).json()
    assert json.loads(shown(config, "--extended")) == extended
    assert "Hélper" in shown(config)


def test_card_show_without_agent_prints_card_of_default_agent(config: Path) -> None:
    config.write_text(AION_YAML.replace("    quiet:\n", "    quiet:\n      default: true\n"), encoding="utf-8")
    card = json.loads(shown(config))
    assert (card["name"], card["url"]) == ("quiet", f"{BASE_URL}/")


GRAPH = """
import os
print("noise of " + os.environ["WHERE"])
from langgraph.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState).add_node("node", lambda state: {}).add_edge(START, "node").compile(name="From code")
"""


def test_card_show_prints_what_code_states(tmp_path: Path) -> None:
    """The code finds the variables of .env, as with `aion dev`, and its output is not part of the card."""
    config = tmp_path / "aion.yaml"
    config.write_text("aion: {agents: {coded: {path: coded_agent.py}}, secrets: {WHERE: where}}")
    (tmp_path / ".env").write_text("WHERE=here\n")
    (tmp_path / "coded_agent.py").write_text(GRAPH)
    with isolated_imports(tmp_path):
        assert json.loads(shown(config))["name"] == "From code"


def test_card_show_warns_of_agent_that_cannot_be_loaded(config: Path) -> None:
    printed = run("show", "--config", config, "--base-url", BASE_URL)
    assert json.loads(printed.stdout)["description"] == "Answers questions."
    assert "agent.py does not exist" in printed.stderr
    assert "The card has only what aion.yaml says." in printed.stderr


def test_card_show_refuses_unknown_agent_and_missing_card(config: Path) -> None:
    assert "has no agent 'nobody'. It declares helper, quiet, unready" in refusal("show", "nobody", "--config", config)
    assert "no extended card" in refusal("show", "quiet", "--extended", "--config", config)
    assert "no extended card" in refusal("show", "unready", "--extended", "--config", config)


def test_signed_card_verifies_until_changed(config: Path, private: Path, tmp_path: Path) -> None:
    signed = run("sign", "-", "--key", private, stdin=shown(config))
    assert signed.exit_code == 0
    card = tmp_path / "card.json"
    card.write_text(signed.stdout, encoding="utf-8")
    for trusted in ("public.jwk", "private.pem"):
        verified = run("verify", card, "--key", tmp_path / trusted)
        assert verified.exit_code == 0, verified.exception
        assert "As v1.0: signed by" in verified.stdout
        assert "As v0.3: signed by" in verified.stdout
    # Signing again adds a signature and keeps the first signature.
    again = run("sign", card, "--key", private, "--key-id", "second", "--key-url", "https://example.com/keys")
    assert len(json.loads(again.stdout)["signatures"]) == 2 * len(json.loads(signed.stdout)["signatures"])
    card.write_text(signed.stdout.replace("Answers", "Refuses"), encoding="utf-8")
    assert "does not verify" in refusal("verify", card, "--key", tmp_path / "public.jwk")
    assert run("verify", "-", "--key", tmp_path / "public.jwk", stdin=signed.stdout).exit_code == 0
    card.write_text(shown(config), encoding="utf-8")
    assert "is not signed" in refusal("verify", card, "--key", tmp_path / "public.jwk")


def test_card_verify_reads_card_and_keys_from_url(config: Path, private: Path, tmp_path: Path, web: str) -> None:
    signed = json.loads(run("sign", "-", "--key", private, stdin=shown(config)).stdout)
    folder = tmp_path / ".well-known"
    folder.mkdir()
    (folder / "agent-card.json").write_text(json.dumps(signed), encoding="utf-8")
    public = json.loads((tmp_path / "public.jwk").read_text())
    other = {"kty": "oct", "k": "AAAA", "kid": "other"}
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [other, public]}), encoding="utf-8")
    for own in ("extendedAgentCard", "v1/card"):
        (tmp_path / own).parent.mkdir(exist_ok=True)
        (tmp_path / own).write_text(json.dumps(signed), encoding="utf-8")
    for source in (web, f"{web}/", *(f"{web}/{own}" for own in CARDS)):
        assert run("verify", source, "--jwks", f"{web}/jwks.json").exit_code == 0
    # Store the card's key under another key id.
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "another"}]}), encoding="utf-8")
    assert "does not verify" in refusal("verify", web, "--jwks", f"{web}/jwks.json")
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [other]}), encoding="utf-8")
    assert "has no key for the signatures of cards" in refusal("verify", web, "--jwks", f"{web}/jwks.json")
    refused = refusal("verify", web, "--jwks", f"{web}/nothing.json")
    assert refused == f"{web}/nothing.json cannot be read: the server returned 404 File not found."


def test_trusted_keys_are_not_read_without_tls(private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the keys redirects to an address of which anybody on the network could make up the keys."""
    source, there = "https://keys.example/jwks.json", ""
    keys = json.dumps({"keys": [json.loads((tmp_path / "public.jwk").read_text())]})

    async def answer(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        is_redirected = request.url.scheme == "https"
        return httpx.Response(302, headers={"location": there}) if is_redirected else httpx.Response(200, text=keys)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    for address in without_tls(source).values():
        there = address
        assert f"{source} cannot be" in refusal("verify", tmp_path / "public.jwk", "--jwks", source)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an agent card"),
        ("{}", "is not an agent card"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_card_verify_refuses_invalid_files(private: Path, tmp_path: Path, content: str, told: str) -> None:
    card = tmp_path / "card.json"
    card.write_text(content, encoding="utf-8")
    assert told in refusal("verify", card, "--key", tmp_path / "public.jwk")


def test_card_sign_needs_card_and_private_key(config: Path, private: Path, tmp_path: Path) -> None:
    assert "cannot sign" in refusal("sign", "-", "--key", tmp_path / "public.jwk", stdin=shown(config))
    assert "cannot be read" in refusal("sign", "-", "--key", tmp_path / "nowhere.pem", stdin=shown(config))
    assert "not an agent card" in refusal("sign", "-", "--key", private, stdin='{"skills": 1}')
    assert "not an agent card" in refusal("sign", "-", "--key", private, stdin="{}")


@pytest.mark.parametrize("bad", ["example.com", "ftp://example.com", "https://", "https://example.com/?a=b"])
def test_card_command_refuses_invalid_url_in_its_options(config: Path, private: Path, bad: str) -> None:
    for arguments in (
        ("show", "--config", config, "--base-url", bad),
        ("sign", "-", "--key", private, "--key-url", bad),
    ):
        failed = run(*arguments, stdin="{}")
        assert failed.exit_code == 2
        assert f"{bad!r} has to be an http or https URL without a query" in " ".join(failed.stderr.split())


def test_card_verify_requires_exactly_one_source_of_trusted_keys(tmp_path: Path) -> None:
    for arguments in ((), ("--key", "a", "--jwks", "b")):
        failed = run("verify", tmp_path, *arguments)
        assert failed.exit_code == 2
        assert "Name the trusted key" in failed.stderr


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_card_keygen_writes_private_key_file_once(tmp_path: Path, algorithm: str) -> None:
    file = tmp_path / "key.pem"
    made = run("keygen", file, "--algorithm", algorithm, "--key-id", "mine")
    assert made.exit_code == 0
    jwk = json.loads(made.stdout)
    assert (jwk["alg"], jwk["kid"]) == (algorithm, "mine")
    assert not {"d", "p", "q"} & set(jwk)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_text()
    assert "cannot be written" in refusal("keygen", file)
    assert file.read_text() == before
