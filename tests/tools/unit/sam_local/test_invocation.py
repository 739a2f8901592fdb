"""Invocation of a function by `sam local start-lambda`; a server of the test answers in its place."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_tools.sam_local.invocation import InvocationFailed, client, handler
from tests.support.listening import listening

ANSWERS = {
    "Works": (200, b'{"batchItemFailures": []}'),
    "Silent": (200, b""),
    "Raises": (200, b'{"errorMessage": "boom", "errorType": "ValueError", "stackTrace": []}'),
    "Missing": (404, b'{"Type": "User", "Message": "Function not found"}'),
    "Broken": (200, b"<html>"),
}
received: list[tuple[str, object]] = []


async def _invoked(request: Request) -> Response:
    received.append((request.url.path, await request.json()))
    status, body = ANSWERS[request.path_params["function"]]
    return Response(body, status)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    route = Route("/2015-03-31/functions/{function}/invocations", _invoked, methods=["POST"])
    with listening(Starlette(routes=[route])) as url:
        yield int(url.rpartition(":")[2])


def test_result_of_function_is_returned(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with client(port) as lambdas:
        assert handler(lambdas, "Works")({"Records": []}, None) == {"batchItemFailures": []}
        assert handler(lambdas, "Silent")({}, None) is None
    assert received[0] == ("/2015-03-31/functions/Works/invocations", {"Records": []})


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("Raises", "^Raises failed: .*boom"),
        ("Missing", "^Missing failed: .*Function not found"),
        ("Broken", "^Broken could not be invoked"),
    ],
)
def test_failed_function_is_named(port: int, function: str, told: str) -> None:
    with client(port) as lambdas, pytest.raises(InvocationFailed, match=told):
        handler(lambdas, function)({}, None)


def test_unreachable_server_is_a_failed_invocation(port: int) -> None:
    with client(1) as lambdas, pytest.raises(InvocationFailed, match=r"^Works could not be invoked"):
        handler(lambdas, "Works")({}, None)
