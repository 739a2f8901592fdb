"""Frames of streams, compared with those of the SDK's dispatchers for the same events."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.errors import InvalidParamsError
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage

from aion_core.clock import SystemClock
from aion_core.engine.agent import AgentMessage, Chunk, Emission, Reply, TurnRequest
from aion_core.engine.records import Delta, Log
from aion_core.engine.stream.broadcast import StreamItem
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Message, Part, Task
from aion_core.table.keys import TaskKey
from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from aion_core.web.sse import Frames, jsonrpc_v1
from tests.runtime.unit.web.sdk_handler import SdkContextBuilder, SdkHandler
from tests.support.agents.scripted import AskingAgent, GatedAgent
from tests.support.rows import each_row
from tests.support.service import ServiceParts, http, parts, send
from tests.support.stores import MemoryTaskStore

ODD = 'quote " backslash \\ newline \n tab \t emoji \U0001f600 rtl \u202eשלום\u202c lines \u2028\u2029\u0085 NUL \0 </script>'


class ScriptedEvents:
    """Agent with chunks of two model calls, and an answer or a failure."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    def load(self) -> None:
        """Do nothing."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("first ", "call-1")
        yield Chunk(ODD, "call-1")
        yield Chunk("second call", "call-2")
        if self._fails:
            raise ValueError("secret of the agent")
        answer = Message(message_id="a-1", parts=[Part(text=ODD), Part(raw=b"\0\xff", media_type="image/png")])
        answer.metadata.update({"key": [1, {"deep": None}]})
        yield Reply(answer)


def the_sdks_app(made: ServiceParts) -> Any:
    """Return an app with our operations behind the SDK's dispatchers, which require the header A2A-Version."""
    dispatcher = JsonRpcDispatcher(SdkHandler(made), SdkContextBuilder("test"), enable_v0_3_compat=True)

    async def rpc(request: Request) -> Any:
        return await dispatcher.handle_requests(request)

    return AwaitBackgroundTurnsMiddleware(Starlette(routes=[Route("/", rpc, methods=["POST"])]))


def frames(answer: httpx.Response) -> list[dict[str, str]]:
    """Return the fields of each frame, parsed strictly."""
    found = []
    for frame in answer.content.decode().replace("\r\n", "\n").strip("\n").split("\n\n"):
        fields = [line.partition(": ") for line in frame.split("\n") if not line.startswith(":")]
        found.append({name: value for name, _, value in fields})
    return [frame for frame in found if frame]


@each_row("fails", [False, True])
@each_row(("method", "version"), [("SendStreamingMessage", "1.0"), ("message/stream", "0.3")])
@each_row("request_id", [7, "a-string", '"}\u2028'])
async def test_sse_frames_equal_sdk_frames(method: str, version: str, fails: bool, request_id: int | str) -> None:
    made = parts(ScriptedEvents(fails=fails))
    body = {**send(method=method, contextId="c-1"), "id": request_id}
    async with http(made.app()) as ours:
        mine = await ours.post("/", json=body, headers={"A2A-Version": version})
    # Send the same message to the SDK's app: as a duplicate, it returns the events of the same task from the log.
    async with http(the_sdks_app(made)) as theirs:
        sdk = await theirs.post("/", json=body, headers={"A2A-Version": version})
    assert mine.status_code == sdk.status_code == 200
    assert mine.headers["content-type"] == sdk.headers["content-type"] == "text/event-stream; charset=utf-8"

    mine_frames, sdk_frames = frames(mine), frames(sdk)
    assert [json.loads(frame["data"]) for frame in mine_frames] == [json.loads(frame["data"]) for frame in sdk_frames]
    kinds = {next(iter(json.loads(frame["data"])["result"])) for frame in mine_frames}
    assert len(mine_frames) == 8 if not fails else 8
    if version == "1.0":
        assert kinds == {"task", "statusUpdate", "artifactUpdate"}


class Losing(MemoryTaskStore):
    """Task store that raises StoreCorrupt when the log after a task's first event is read."""

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        if after > 1:
            raise StoreCorrupt("secret of the store")
        return await super().log(key, after=after)


@pytest.mark.parametrize(("method", "version"), [("SubscribeToTask", "1.0"), ("tasks/resubscribe", "0.3")])
async def test_stream_that_breaks_ends_with_same_error_as_sdk(method: str, version: str) -> None:
    agent = GatedAgent()
    made = parts(agent, Losing(SystemClock()))
    begin = send(contextId="c-1")
    begin["params"]["configuration"] = {"returnImmediately": True}
    async with http(made.app()) as ours, http(the_sdks_app(made)) as theirs:
        task = (await ours.post("/", json=begin)).json()["result"]["task"]
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": task["id"]}}
        headers = {"A2A-Version": version}
        mine, sdk = await ours.post("/", json=body, headers=headers), await theirs.post("/", json=body, headers=headers)
        agent.go.set()
    assert "secret" not in mine.text
    first, *_, last = frames(mine)
    sdk_first, *_, sdk_last = frames(sdk)
    assert json.loads(first["data"]) == json.loads(sdk_first["data"])
    said, sdk_said = json.loads(last["data"]), json.loads(sdk_last["data"])
    assert last["event"] == "error"
    # Compare the event's name and the error's details in v1.0 only, because the SDK of v0.3 sends neither.
    if version == "1.0":
        assert sdk_last["event"] == "error"
        assert said == sdk_said
    assert (said["id"], said["error"]["code"]) == (sdk_said["id"], sdk_said["error"]["code"]) == (7, -32603)
    assert said["error"]["message"] == sdk_said["error"]["message"]


class ReleasedByComments:
    """App that lets its agent continue after three comments in the stream."""

    def __init__(self, agent: GatedAgent, app: ASGIApp) -> None:
        self._agent, self._app, self._comments = agent, app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: ASGIMessage) -> None:
            self._comments += message.get("body", b"").startswith(b":")
            if self._comments > 2:
                self._agent.go.set()
            await send(message)

        await self._app(scope, receive, counted)


async def test_idle_stream_sends_keep_alive_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP entry points close idle connections, so an idle stream must send something."""
    monkeypatch.setattr("aion_core.web.sse.KEEP_ALIVE_SECONDS", 0.01)
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.01)
    for of in (ServiceParts.app, the_sdks_app):
        agent = GatedAgent()
        async with http(ReleasedByComments(agent, of(parts(agent)))) as client:
            headers = {"A2A-Version": "1.0"}
            answer = await client.post("/", json=send(method="SendStreamingMessage"), headers=headers)
        comments = [line for line in answer.text.splitlines() if line.startswith(":")]
        assert len(comments) > 2
        assert len(frames(answer)) == 5, "and no frame more"


async def test_sse_event_ids_number_the_task_events_and_their_chunks() -> None:
    made = parts(ScriptedEvents())
    async with http(made.app()) as client:
        answer = await client.post("/", json=send(method="SendStreamingMessage"))
    assert [frame["id"] for frame in frames(answer)] == [
        "1", "2", "2.1.0", "2.1.1", "2.1.2", "2.1.3", "2.1.4", "3",
    ]  # fmt: skip


def finals(answer: httpx.Response) -> list[bool]:
    results = [json.loads(frame["data"])["result"] for frame in frames(answer)]
    return [result["final"] for result in results if result["kind"] == "status-update"]


async def test_v03_replay_marks_only_last_event_as_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay a task whose question is answered: a client closes the stream at `final: true`."""
    question = send("cake", method="message/stream", contextId="c-1")
    async with http(parts(AskingAgent()).app()) as client:
        asked = await client.post("/", json=question)
        assert finals(asked) == [False, True], "the question ends its own stream"
        await client.post("/", json=send("yes", message_id="m-2", method="message/send", contextId="c-1"))
        repeated = await client.post("/", json=question)
        assert finals(repeated) == [False, False, False, True]
        task_id = json.loads(frames(asked)[0]["data"])["result"]["id"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": task_id}}
        resumed = await client.post("/", json=body, headers={"Last-Event-ID": "1"})
        assert finals(resumed) == [False, False, False, True]
        # Allow all frames but the last: the server then writes them one by one.
        monkeypatch.setattr("aion_core.web.sse.MAX_STREAM_BYTES", len(repeated.content) - 1)
        assert finals(await client.post("/", json=question)) == [False, False, False]


async def test_sse_frame_contains_no_unicode_line_separator() -> None:
    """Stream texts with line ends of all kinds: clients that split lines by Python's rules read whole frames."""
    made = parts(ScriptedEvents())
    async with http(made.app()) as client:
        answer = await client.post("/", json=send(ODD, method="SendStreamingMessage"))
    for line in answer.content.decode().splitlines():
        assert not line or line.startswith(("id: ", "data: {"))


async def test_stream_of_failed_turn_hides_exception_text() -> None:
    made = parts(ScriptedEvents(fails=True))
    async with http(made.app()) as client:
        answer = await client.post("/", json=send(method="message/stream"))
    last = json.loads(frames(answer)[-1]["data"])["result"]
    assert last["status"]["state"] == "failed"
    assert last["final"] is True
    assert last["metadata"] == {"error": "ValueError: the agent could not finish this turn."}
    assert last["status"]["message"]["parts"][0]["text"] == last["metadata"]["error"]
    assert "secret of the agent" not in answer.text


async def test_development_server_returns_exception_text_of_agent() -> None:
    made = parts(ScriptedEvents(fails=True), reveal_errors=True)
    async with http(made.app()) as client:
        answer = await client.post("/", json=send(method="message/send"))
    assert "secret of the agent" in answer.json()["result"]["metadata"]["error"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class FailsUnprintably(ScriptedEvents):
    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        raise Unprintable
        yield


async def test_task_fails_if_agent_exception_cannot_be_printed() -> None:
    made = parts(FailsUnprintably(), reveal_errors=True)
    async with asyncio.timeout(60), http(made.app()) as client:
        answer = await client.post("/", json=send(method="message/send"))
    said = answer.json()["result"]["metadata"]["error"]
    assert said == "Unprintable: the agent could not finish this turn."


async def test_agent_error_with_half_surrogate_pair_fails_the_task(caplog: pytest.LogCaptureFixture) -> None:
    class FailsWithHalf(ScriptedEvents):
        async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
            raise ValueError("half \ud83d")
            yield

    caplog.set_level(
        logging.CRITICAL, "aion_core.engine.runner"
    )  # pytest-xdist cannot transport a log with half a pair
    made = parts(FailsWithHalf(), reveal_errors=True)
    async with asyncio.timeout(60), http(made.app()) as client:
        answer = await client.post("/", json=send(method="message/send"))
    assert answer.json()["result"]["metadata"]["error"].endswith("half ?")


def test_error_frame_escapes_unicode_line_ends() -> None:
    """An error may quote the request, and Python's `splitlines` ends a line at U+2028."""
    frame = Frames(jsonrpc_v1(1)).error(InvalidParamsError(ODD)).decode()
    assert len(frame.splitlines()) == 3, "its event, its data and the empty line"
    assert json.loads(frame.splitlines()[1].removeprefix("data: "))["error"]["message"] == f"Invalid parameters. {ODD}"


class Wordy(ScriptedEvents):
    """Agent with many messages, chunks of text and an answer."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        for number in range(40):
            yield AgentMessage(Message(message_id=f"m-{number}", parts=[Part(text="x" * 500)]), key=f"k-{number}")
            yield Chunk(f"chunk {number} ", "call")
        yield Reply(Message(message_id="a-1", parts=[Part(text="y" * 500)]))


async def test_stream_ends_before_maximum_size_and_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream ends after a whole frame below the maximum size; the last event id leads to the rest."""
    monkeypatch.setattr("aion_core.web.sse.MAX_STREAM_BYTES", 5_000)
    ids: list[int] = []
    streams, completed, task_id = 0, False, ""
    async with http(parts(Wordy()).app()) as client:
        body = send(method="SendStreamingMessage")
        while not completed:
            headers = {"Last-Event-ID": str(ids[-1])} if ids else {}
            answer = await client.post("/", json=body, headers=headers)
            streams += 1
            assert len(answer.content) <= 5_000
            assert answer.content.endswith(b"\n\n")
            received = frames(answer)
            ids += [int(frame["id"]) for frame in received if frame.get("id", "").isdecimal()]
            results = [json.loads(frame["data"])["result"] for frame in received if "data" in frame]
            task_id = task_id or results[0]["task"]["id"]
            body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
            completed = any("COMPLETED" in json.dumps(result) for result in results)
    assert ids == list(range(1, 44))
    assert streams > 5


async def test_stream_sends_one_oversized_frame_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aion_core.web.sse.MAX_STREAM_BYTES", 10)
    async with http(parts(Wordy()).app()) as client:
        answer = await client.post("/", json=send(method="SendStreamingMessage"))
    assert [frame["id"] for frame in frames(answer)] == ["1"]


def test_sse_frame_of_chunk_has_no_unneeded_bytes() -> None:
    frames = Frames(jsonrpc_v1(1))
    task_id, context_id = str(uuid4()), str(uuid4())
    frames.render([StreamItem("1", Task(id=task_id, context_id=context_id))])
    frame = frames.render([StreamItem("2.1.47", Delta("word0047 ", append=True))])
    assert json.loads(frame.partition(b"data: ")[2])["result"]["artifactUpdate"]["artifact"]["parts"] == [
        {"text": "word0047 "}
    ]
    assert len(frame) <= 290
