"""CORS: origins, preflight requests and exposed headers of each path, with authentication."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.protocol.dialects import DIALECTS
from tests.runtime.unit.auth.guarded import GRAPHS
from tests.support.entrypoints import function_url, rest_api
from tests.support.service import http, send

APP, OTHER, ADMIN = "https://app.example.com", "https://other.example.com", "https://admin.example.com"

AION_YAML = """
aion:
  security:
    schemes:
      own: %s
%s
  agents:
    one: {path: guarded_agents.py:one}
    two: {path: guarded_agents.py:two%s}
"""
KEY = "{type: api-key, header: X-Team-Key}"
CORS = f"  cors: {{origins: [{APP}], headers: [X-Trace], max_age: 60}}"
OWN = f", cors: {{origins: [{ADMIN}]}}"

PATHS = ["/", "/tasks/t-1:subscribe", "/agents/one", "/no"]
PUBLIC = [
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/.well-known/manifest.json",
    "/health",
]
ALLOW, CREDENTIALS = "access-control-allow-origin", "access-control-allow-credentials"


def served(folder: Path, cors: str = CORS, two: str = "", scheme: str = KEY, **environ: str) -> FastAPI:
    (folder / "guarded_agents.py").write_text(GRAPHS)
    config = folder / "aion.yaml"
    config.write_text(AION_YAML % (scheme, cors, two))
    environment = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test", **environ}
    return build_app(Settings.from_environ(environment))


async def preflight(app: Any, path: str, origin: str, headers: str = "content-type", **more: str) -> httpx.Response:
    method = more.get("method", "POST")
    requested = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    async with http(app) as client:
        return await client.options(path, headers={"Origin": origin, **requested})


def listed(response: httpx.Response, header: str) -> set[str]:
    return {name.strip().lower() for name in response.headers[header].split(",")}


class TestPreflight:
    """Preflight requests, which a browser sends without credentials."""

    @pytest.mark.parametrize("path", PATHS)
    async def test_cors_preflight_is_answered_without_authentication(self, tmp_path: Path, path: str) -> None:
        app = served(tmp_path)
        headers = "content-type,x-team-key,a2a-version,a2a-extensions,last-event-id,idempotency-key,x-trace"
        response = await preflight(app, path, APP, headers)
        assert (response.status_code, response.headers[ALLOW]) == (200, APP)
        assert set(headers.split(",")) <= listed(response, "access-control-allow-headers")
        assert listed(response, "access-control-allow-methods") == {"get", "head", "post", "delete"}
        assert response.headers["access-control-max-age"] == "60"
        assert "origin" in listed(response, "vary")
        assert CREDENTIALS not in response.headers

    @pytest.mark.parametrize("path", PATHS)
    async def test_preflight_from_unlisted_origin_fails(self, tmp_path: Path, path: str) -> None:
        response = await preflight(served(tmp_path), path, OTHER)
        assert (response.status_code, ALLOW in response.headers) == (400, False)

    async def test_preflight_refuses_header_that_is_not_configured(self, tmp_path: Path) -> None:
        assert (await preflight(served(tmp_path), "/", APP, "x-other")).status_code == 400

    async def test_page_of_listed_origin_may_call_agent_in_private_network(self, tmp_path: Path) -> None:
        """A browser asks in the preflight whether a public page may call an agent in a private network."""
        headers = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Private-Network": "true"}
        async with http(served(tmp_path)) as client:
            listed_origin = await client.options("/tasks", headers={"Origin": APP, **headers})
            assert listed_origin.headers["access-control-allow-private-network"] == "true"
            document = await client.options(PUBLIC[0], headers={"Origin": OTHER, **headers})
            assert "access-control-allow-private-network" not in document.headers

    @pytest.mark.parametrize("path", PATHS)
    async def test_preflight_is_refused_if_cors_is_not_configured(self, tmp_path: Path, path: str) -> None:
        response = await preflight(served(tmp_path, cors=""), path, APP)
        assert (response.status_code, ALLOW in response.headers) == (401, False)

    @pytest.mark.parametrize(
        "entrypoint", [lambda app: rest_api(app, "x.test", "dev"), lambda app: function_url(app, "x.test")]
    )
    async def test_preflight_is_answered_on_lambda(self, tmp_path: Path, entrypoint: Any) -> None:
        """A preflight's Lambda event names no caller: it is answered nevertheless."""
        response = await preflight(entrypoint(served(tmp_path)), "/", APP, "x-team-key")
        assert (response.status_code, response.headers[ALLOW]) == (200, APP)

    async def test_aws_signature_headers_are_allowed_only_with_aws_iam_scheme(self, tmp_path: Path) -> None:
        signed = "authorization,x-amz-date,x-amz-security-token,x-amz-content-sha256"
        assert (await preflight(served(tmp_path), "/", APP, signed)).status_code == 400
        app = served(tmp_path, scheme="{type: aws-iam}")
        assert (await preflight(app, "/", APP, signed)).status_code == 200

    @pytest.mark.parametrize(("entrypoints", "warns"), [("AWS_IAM,OFF", True), ("AWS_IAM,NONE", False), ("", False)])
    async def test_server_warns_that_required_aws_signatures_block_cors_preflights(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, entrypoints: str, warns: bool
    ) -> None:
        """Warn if each entry point requires AWS signatures, because AWS then refuses preflight requests."""
        both = "{type: aws-iam}\n      key: {type: api-key}"
        scheme = both if entrypoints == "AWS_IAM,NONE" else "{type: aws-iam}"
        served(tmp_path, scheme=scheme, AION_HTTP_ENTRYPOINTS=entrypoints)
        assert ("requires AWS signatures" in caplog.text) == warns


class TestResponses:
    """Responses to requests other than preflight requests."""

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [("POST", "/", 401), ("GET", "/no", 401)],
    )
    async def test_error_response_is_readable_by_page_of_configured_origin(
        self, tmp_path: Path, method: str, path: str, status: int
    ) -> None:
        async with http(served(tmp_path)) as client:
            response = await client.request(method, path, headers={"Origin": APP})
            assert (response.status_code, response.headers[ALLOW]) == (status, APP)
            exposed = {"www-authenticate", "retry-after", "etag", "a2a-extensions", "a2a-version"}
            assert exposed <= listed(response, "access-control-expose-headers")
            assert "origin" in listed(response, "vary")
            assert CREDENTIALS not in response.headers
            other = await client.request(method, path, headers={"Origin": OTHER})
            assert (other.status_code, ALLOW in other.headers) == (status, False)

    @pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
    async def test_response_and_stream_are_readable_by_page_of_allowed_origin(
        self, tmp_path: Path, operation: str
    ) -> None:
        app = served(tmp_path, AION_AUTH="off", AION_LOOPBACK_ORIGINS="true")
        page = "http://127.0.0.1:3000"
        sent = DIALECTS[2].request(operation, send()["params"])
        assert sent is not None
        async with http(app) as client:
            response = await client.post(
                f"http://localhost{sent.target}", content=sent.body, headers={**sent.headers, "Origin": page}
            )
        assert (response.status_code, response.headers[ALLOW]) == (200, page)
        assert "one" in response.text

    async def test_response_has_no_cors_headers_if_cors_is_not_configured(self, tmp_path: Path) -> None:
        async with http(served(tmp_path, cors="")) as client:
            response = await client.post("/", json=send(), headers={"Origin": APP})
        assert not [name for name in response.headers if name.startswith("access-control")]


class TestPublicDocuments:
    """Documents without authentication: pages of every origin may read them, whatever `cors` says."""

    @pytest.mark.parametrize("path", PUBLIC)
    @pytest.mark.parametrize("cors", ["", CORS])
    async def test_public_document_is_readable_by_page_of_any_origin(
        self, tmp_path: Path, path: str, cors: str
    ) -> None:
        app = served(tmp_path, cors)
        response = await preflight(app, path, OTHER, "a2a-version,if-none-match", method="GET")
        assert (response.status_code, response.headers[ALLOW]) == (200, "*")
        async with http(app) as client:
            response = await client.get(path, headers={"Origin": OTHER})
            assert (response.status_code, response.headers[ALLOW]) == (200, "*")
            assert "etag" in listed(response, "access-control-expose-headers")
            if etag := response.headers.get("etag"):
                known = await client.get(path, headers={"Origin": OTHER, "If-None-Match": etag})
                assert (known.status_code, known.headers[ALLOW]) == (304, "*")

    async def test_preflight_for_post_to_public_document_fails(self, tmp_path: Path) -> None:
        assert (await preflight(served(tmp_path), PUBLIC[0], APP)).status_code == 400


class TestOrigins:
    """Allowed origins: configured for each agent, also by pattern."""

    @pytest.mark.parametrize(
        ("path", "allowed"), [("/", APP), ("/agents/one/message:send", APP), ("/agents/two", ADMIN), ("/agents/x", APP)]
    )
    async def test_cors_origins_of_one_agent_replace_those_of_deployment(
        self, tmp_path: Path, path: str, allowed: str
    ) -> None:
        app = served(tmp_path, CORS, OWN)
        for origin in (APP, ADMIN):
            response = await preflight(app, path, origin)
            assert (response.status_code, response.headers.get(ALLOW)) == (
                (200, origin) if origin == allowed else (400, None)
            )

    async def test_one_agent_may_disable_cors_of_deployment(self, tmp_path: Path) -> None:
        app = served(tmp_path, CORS, ", cors: {origins: []}")
        assert (await preflight(app, "/agents/one", APP)).status_code == 200
        assert (await preflight(app, "/agents/two", APP)).status_code == 401

    @pytest.mark.parametrize(
        ("declared", "origin", "is_allowed"),
        [
            ("'*'", "https://anything.test", True),
            ("https://*.example.com", "https://a.example.com", True),
            ("https://*.example.com", "https://example.com", False),
            ("https://*.example.com", "http://a.example.com", False),
            ("https://*.example.com", "https://evilexample.com", False),
            ("https://*.example.com", "https://a.example.com.evil.org", False),
            ("https://*.example.com", "https://a.exampleXcom", False),
            ("https://*.example.com:8443", "https://a.example.com:8443", True),
            ("HTTPS://App.Example.com:443", APP, True),
            ("http://localhost:3000", "http://localhost:30001", False),
            ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop", True),
        ],
    )
    async def test_preflight_succeeds_only_for_declared_origin(
        self, tmp_path: Path, declared: str, origin: str, is_allowed: bool
    ) -> None:
        app = served(tmp_path, f"  cors: {{origins: [{declared}]}}")
        response = await preflight(app, "/", origin)
        assert (response.status_code == 200) == is_allowed
        assert (response.headers.get(ALLOW) in (origin, "*")) == is_allowed


class TestDevelopmentServer:
    """Server with the settings of `aion dev`: pages of this machine may call it."""

    @pytest.mark.parametrize("auth", ["on", "off"])
    async def test_page_on_localhost_may_call_development_server(self, tmp_path: Path, auth: str) -> None:
        app = served(tmp_path, "", AION_AUTH=auth, AION_LOOPBACK_ORIGINS="true")
        for origin in ("http://localhost:5173", "http://127.0.0.1:3000", "https://localhost", "http://[::1]:80"):
            response = await preflight(app, "http://127.0.0.1:8000/", origin, "x-team-key,content-type")
            assert (response.status_code, response.headers[ALLOW]) == (200, origin)

    @pytest.mark.parametrize("auth", ["on", "off"])
    async def test_page_outside_localhost_may_not_call_development_server(self, tmp_path: Path, auth: str) -> None:
        app = served(tmp_path, "", AION_AUTH=auth, AION_LOOPBACK_ORIGINS="true")
        for origin in (APP, "http://localhost.evil.org", "http://127.0.0.1.nip.io:3000", "null"):
            response = await preflight(app, "http://127.0.0.1:8000/", origin)
            assert (response.status_code, ALLOW in response.headers) == (403 if auth == "off" else 400, False)
