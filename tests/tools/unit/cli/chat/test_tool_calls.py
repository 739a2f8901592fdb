"""Tool calls of an answer: their lines, and a server without a trace."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.trace.step import Kind, Step
from aion_tools.cli.chat.tool_calls import ToolCalls, line_of_call


def call(arguments: str, result: str, error: str = "", name: str = "find", ms: float | None = 12) -> Step:
    return Step(1, Kind.TOOL, name, 0, ms=ms, arguments=arguments, result=result, error=error)


@pytest.mark.parametrize(
    ("step", "width", "line"),
    [
        (call('{"text": "a b", "n": 2}', "5"), 80, '· find(text="a b", n=2) → 5  12 ms'),
        (call("", ""), 80, "· find()  12 ms"),
        (call("{}", "", ms=None), 80, "· find()"),
        (call("plain", "one\n  two"), 80, "· find(plain) → one two  12 ms"),
        (call('{"n": 1}', "no rate", "ValueError"), 80, "· find(n=1) → ✗ ValueError no rate  12 ms"),
        (call('{"n": 1}', "no rate", "_OTHER"), 80, "· find(n=1) → ✗ no rate  12 ms"),
        # A long value leaves room for the other one; if both are long, they share it.
        (call('{"n": 1}', "x" * 90), 40, "· find(n=1) → xxxxxxxxxxxxxxxxxx…  12 ms"),
        (call('{"n": "' + "x" * 90, "y"), 40, '· find({"n": "xxxxxxxxxxxxx…) → y  12 ms'),
        (call('{"n": "' + "x" * 90, "y" * 90), 40, '· find({"n": "xxx…) → yyyyyyyyyy…  12 ms'),
        # No control character of an agent reaches the terminal.
        (call('{"n": "\\u001b[2J"}', "\x1b[2J", name="a\x1bb"), 80, r'· a\x1bb(n="\u001b[2J") → \x1b[2J  12 ms'),
    ],
)
def test_line_of_tool_call_fits_into_width(step: Step, width: int, line: str) -> None:
    assert (line_of_call(step, width), len(line) <= width) == (line, True)


async def test_server_without_trace_is_asked_once() -> None:
    asked = []

    def answer(request: Request) -> Response:
        asked.append(request.url.path)
        return JSONResponse({"agent": "a"}) if request.url.path.endswith(".json") else Response(status_code=404)

    app = Starlette(routes=[Route("/{path:path}", answer)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        calls = ToolCalls(http, "http://127.0.0.1:8000")
        for _ in range(2):
            await calls.show_rest("t-1", lambda step: pytest.fail(str(step)))
    assert asked == ["/console/features.json", "/agents/a/console/turns"]
