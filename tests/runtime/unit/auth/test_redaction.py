"""Credentials of a request in the log lines of an app behind the authentication."""

import io
import logging
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from aion_core import log
from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.auth.schemes.basic import BasicScheme
from aion_core.telemetry import NoopTraces, NullMetrics
from aion_core.web.middleware.observability import ObservabilityMiddleware
from tests.runtime.unit.auth.passwords import CHEAP, basic_header
from tests.support.asgi import ask
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock

logger = logging.getLogger("an.authors.agent")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    log.install()
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(handler)


async def request(app: AuthApp, headers: dict[str, str], line: str) -> int:
    """Send a request through the whole middleware. An app behind it logs the line."""
    inner = app.app

    async def logging_app(scope: Scope, receive: Receive, send: Send) -> None:
        await inner(scope, receive, send)
        logger.info("The agent got %s.", line)

    observed = ObservabilityMiddleware(logging_app, NullMetrics(), NoopTraces())
    return (await ask(observed, "GET", "/", headers)).status_code


@pytest.mark.parametrize("header", ["X-Key", "Passport"])
@pytest.mark.parametrize("is_known", [True, False])
async def test_api_key_in_configured_header_is_redacted_from_log(
    clock: ManualClock, written: io.StringIO, header: str, is_known: bool
) -> None:
    app = AuthApp(clock, key=ApiKeyScheme(header=header))
    key = make_key("alice", now=clock.now())
    if is_known:
        await app.keys.add(key.record)
    assert await request(app, {header: key.text}, key.text) == (200 if is_known else 401)
    assert written.getvalue() == "The agent got [redacted].\n"


@pytest.mark.parametrize(("password", "status"), [("Refused", 200), ("c0rrect-horse", 200), ("wr0ng-guess", 401)])
async def test_basic_password_is_redacted(clock: ManualClock, written: io.StringIO, password: str, status: int) -> None:
    users = {"ann": CHEAP.hash(password)} if status == 200 else {"ann": CHEAP.hash("other")}
    app = AuthApp(clock, basic=BasicScheme(), users=users)
    name, value = basic_header("ann", password)
    assert await request(app, {name: value}, f"{password} {value.removeprefix('Basic ')}") == status
    assert written.getvalue() == "The agent got [redacted] [redacted].\n"


async def test_refused_credentials_are_not_redacted_from_log(clock: ManualClock, written: io.StringIO) -> None:
    app = AuthApp(clock, basic=BasicScheme(), users={"ann": CHEAP.hash("other")})
    headers = dict([basic_header("ann", "The agent got"), ("X-Token", "agent got")])
    assert await request(app, headers, "it") == 401
    assert written.getvalue() == "The agent got it.\n"
