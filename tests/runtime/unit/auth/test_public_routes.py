"""Public routes: every other path requires credentials, whatever its spelling."""

from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core.protocol.keys import CardKey
from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
from tests.runtime.unit.auth.guarded import guarded, jwt_scheme
from tests.support.asgi import ask
from tests.support.issuer import Issuer

KEYS = "/.well-known/jwks.json"
PUBLIC = [
    *(
        f"{where}/.well-known/{name}.json"
        for where in ("", "/agents/one", "/agents/two")
        for name in ("agent-card", "agent")
    ),
    "/.well-known/manifest.json",
    "/health",
    "/health/",
]


@pytest.fixture
def app(tmp_path: Path, issuer: Issuer) -> FastAPI:
    return guarded(tmp_path, jwt_scheme(issuer))


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Return every path with every method, with its parameters filled in."""
    found = []
    for route in app.router.routes:
        path = route.path  # type: ignore[attr-defined]
        for name in ("{taskId}", "{id:text}", "{config_id:text}", "{id}", "{tenant}"):
            path = path.replace(name, "x")
        assert "{" not in path, path
        found += [(method, path) for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE")]
    return found


async def open_routes(app: FastAPI) -> set[tuple[str, str]]:
    """Return the methods and paths open to requests without credentials."""
    found = set()
    for method, path in routes(app):
        answer = await ask(app, method, path)
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == 'Bearer realm="aion"', (method, path)
        else:
            found.add((method, path))
    return found


OPEN = {(method, path) for path in PUBLIC for method in ("GET", "HEAD")}


async def test_only_listed_routes_answer_without_credentials(app: FastAPI) -> None:
    assert await open_routes(app) == OPEN
    for method, path in OPEN:
        assert (await ask(app, method, path)).status_code == 200


async def test_jwks_document_is_public_if_cards_are_signed(tmp_path: Path, issuer: Issuer) -> None:
    """Without a key that signs cards, `/.well-known/jwks.json` requires credentials like an unknown path."""
    assert (await ask(guarded(tmp_path, jwt_scheme(issuer)), "GET", KEYS)).status_code == 401
    (tmp_path / "key.pem").write_text(CardKey.generate("ES256")[1], encoding="utf-8")
    app = guarded(tmp_path, jwt_scheme(issuer), AION_CARD_KEY_FILE=str(tmp_path / "key.pem"))
    assert await open_routes(app) == OPEN | {("GET", KEYS), ("HEAD", KEYS)}


async def test_new_route_requires_authentication(app: FastAPI, issuer: Issuer) -> None:
    async def answer(_: Request) -> Response:
        return Response("new")

    app.router.routes.append(Route("/agents/one/new", answer, methods=["GET", "POST"]))
    app.router.routes.insert(0, Route("/.well-known/new.json", answer))
    assert await open_routes(app) == OPEN
    token = {"authorization": f"Bearer {issuer.token()}"}
    for path in ("/agents/one/new", "/.well-known/new.json"):
        assert (await ask(app, "GET", path, token)).text == "new"


SPELLINGS = [
    "//",
    "/./",
    "/agents/one",
    "/agents/one//",
    "//agents/one/",
    "/Agents/one/",
    "/AGENTS/ONE/tasks",
    "/agents/nobody/",
    "/agents//",
    "/agents/%6fne/tasks",
    "/agents/one/../two/tasks",
    "/agents/one%2ftasks",
    "/%74asks",
    "/tasks/",
    "//tasks",
    "/TASKS",
    "/tasks/x/",
    "/tasks/.well-known/agent-card.json",
    "/tasks/x%2f..%2f..%2f.well-known/agent-card.json",
    "/.well-known/agent-card.json/",
    "/.well-known//agent-card.json",
    "/.well-known/../tasks",
    "/.well-known/agent-card.json%00",
    "/.well-known/agent-card.json;x",
    "/.WELL-KNOWN/agent-card.json",
    "/agents/nobody/.well-known/agent-card.json",
    "/x/.well-known/agent-card.json",
    "/health//",
    "/healthz",
    "/health/../tasks",
    "/extendedAgentCard",
    "/extendedAgentCard/",
    "/v1/card",
    "/agent/authenticatedExtendedCard",
    "/agent/authenticatedExtendedCard/",
    "/agents/one/extendedAgentCard",
    "/docs",
    "/openapi.json",
    "/redoc",
    "/favicon.ico",
    "/%F0%9F%92%A9",
    # Other forms of a request target (RFC 9112, 3.2): absolute, as sent to a proxy, and the asterisk.
    "http://evil.example.com/.well-known/agent-card.json",
    "http://x.test/health",
    "*",
    "tasks",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unusual_path_spellings_require_authentication(app: FastAPI, method: str) -> None:
    """All paths get the same refusal, so that it does not reveal which paths exist."""
    bodies = set()
    for path in SPELLINGS:
        answer = await ask(app, method, path, {"content-type": "application/json"}, b"{")
        assert answer.status_code == 401, path
        bodies.add(answer.content)
    assert len(bodies) == 1


@pytest.mark.parametrize("path", ["/%2ewell-known/agent-card.json", "/.well-known/agent%2Dcard.json", "/he%61lth"])
async def test_percent_encoded_public_path_is_public(app: FastAPI, path: str) -> None:
    assert (await ask(app, "GET", path)).status_code == 200


async def test_request_body_is_unread_before_authentication(app: FastAPI) -> None:
    async def receive() -> dict[str, object]:
        raise AssertionError("the body was read")

    sent: list[dict[str, object]] = []

    async def keep(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"content-type", b"text/plain"), (b"content-length", b"99999999999")],
    }
    await app(scope, receive, keep)  # type: ignore[arg-type]
    assert sent[0]["status"] == 401


@pytest.mark.parametrize("on_loopback", [False, True])
async def test_websocket_connection_is_refused(app: FastAPI, on_loopback: bool) -> None:
    sent: list[object] = []
    served = LoopbackOnlyMiddleware(app) if on_loopback else app

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    async def keep(message: object) -> None:
        sent.append(message)

    await served({"type": "websocket", "path": "/", "headers": []}, receive, keep)
    assert sent == [{"type": "websocket.close", "code": 1008}]
