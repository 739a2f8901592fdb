"""Times of a reply, and replies that never end."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest
from a2a.types import StreamResponse, TaskState
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_tools.cli.chat.endpoint import Endpoint
from aion_tools.cli.chat.timed_reply import TimedReply, timed_reply
from tests.support.listening import listening
from tests.support.rows import each_row
from tests.tools.unit.cli.checks.doctor_command import doctor


def status(state: str, second: float) -> dict[str, object]:
    timestamp = f"2026-01-01T00:00:{second:06.3f}Z"
    return {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": state, "timestamp": timestamp}}}


WORKING, DONE = TaskState.Name(TaskState.TASK_STATE_WORKING), TaskState.Name(TaskState.TASK_STATE_COMPLETED)


@each_row(
    ("turn", "arrival", "is_buffered"),
    [(1.0, 0.49, True), (1.0, 0.51, False), (0.99, 0.0, False), (4.0, 0.0, True)],
)
def test_reply_is_buffered_if_its_statuses_arrive_together(turn: float, arrival: float, is_buffered: bool) -> None:
    """Compare a turn's time on the server with the time between the arrivals of its statuses."""
    reply = TimedReply("Helper", is_streamed=True)
    for at, event in ((5.0, status(WORKING, 10)), (5.0 + arrival, status(DONE, 10 + turn))):
        reply.add(ParseDict(event, StreamResponse()), at)
    assert (reply.is_buffered, reply.events, reply.end) == (is_buffered, 2, 5.0 + arrival)
    assert reply.arrival == ("whole at its end instead of streamed" if is_buffered else "streamed")


@contextmanager
def agent(*events: dict[str, object], fault: str = "") -> Iterator[str]:
    """Serve an agent that streams these events to each message, and closes the stream. Faults: `silent`, `dies`.

    A message without a stream gets a completed task.
    """

    async def card(request: Request) -> Response:
        interface = {"url": str(request.base_url), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return JSONResponse({"name": "x", "capabilities": {"streaming": True}, "supportedInterfaces": [interface]})

    async def message(request: Request) -> Response:
        asked = await request.json()
        while fault == "silent" and not await request.is_disconnected():
            await asyncio.sleep(0.01)
        if asked["method"] == "SendMessage":
            task = {"id": "t-1", "contextId": "c-1", "status": {"state": DONE}}
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}})
        answers = [json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": each}) for each in events]
        body = "".join(f"data: {each}\n\n" for each in answers)
        # A body shorter than its length is a lost connection.
        headers = {"Content-Length": "9"} if fault == "dies" else None
        return Response(body, media_type="text/event-stream", headers=headers)

    with listening(Starlette(routes=[Route("/", message, methods=["POST"]), Route("/{path:path}", card)])) as url:
        yield url


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([status(WORKING, 1)], "The reply ended after 1 events, and the task is working."),
        ([], "The reply ended after 0 events, and the agent has sent no task and no message."),
    ],
)
def test_stream_that_ends_too_early_is_reported(events: list[dict[str, object]], told: str) -> None:
    with agent(*events) as url, pytest.raises(click.ClickException) as raised:
        asyncio.run(timed_reply(Endpoint(url, "off")))
    assert raised.value.message == told


def test_agent_without_answer_in_time_is_reported() -> None:
    with agent(fault="silent") as url, pytest.raises(click.ClickException) as raised:
        asyncio.run(timed_reply(Endpoint(url, "off"), time_limit=0.3))
    assert raised.value.message == "The agent has not answered within 0.3 s."


def test_lost_connection_is_not_called_a_refusal() -> None:
    with agent(fault="dies") as url, pytest.raises(click.ClickException) as raised:
        asyncio.run(timed_reply(Endpoint(url, "off")))
    assert raised.value.message.startswith("The connection is lost: ")


def test_doctor_fails_for_buffered_stream() -> None:
    with agent(status(WORKING, 1), status(DONE, 5)) as url:
        code, results = doctor({}, url)
    assert (code, results["streamed message"]["status"]) == (1, "FAILED")
    assert results["streamed message"]["message"].startswith("All 2 events arrived together after ")
