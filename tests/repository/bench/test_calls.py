"""Number of function calls per streamed chunk and per blocking send. Unlike times, it is deterministic.

`make bench` measures times; a call takes about 0.1 µs.
"""

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.bootstrap import build_app
from aion_core.engine.admission import messages, new_tasks
from aion_core.engine.agent import TurnRequest
from aion_core.engine.records import Turn
from aion_core.engine.task import projection
from aion_core.protocol.types import Message, Part, Role
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey
from bench import floor
from bench.client import request
from bench.servers import ROOT
from tests.support.agents.counting import talking

FEW, MANY = 100, 300
BUDGET = 0.3 if sys.version_info < (3, 12) else 0.45
"""Maximum ratio of the adapter's calls for a chunk to LangGraph's own.

For each chunk LangChain checks if our callback is a coroutine function; since Python 3.12 this takes 13 more calls.
"""


SENDS = 10
SEND_BUDGET = 1.81
"""Maximum ratio of the calls of a blocking send to those of a bare Starlette app with the same graph.

The response has the answer twice, in the status and in the history: the second one takes 35 of 10,370 calls.
"""


TRACE_BUDGET = 1.05
"""Maximum ratio of the calls of a blocking send with a stored trace to those without one: 10,659 to 10,368."""


def calls(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Return how many Python and C functions the run calls in this thread."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    async def profiled() -> None:
        sys.setprofile(profile)
        try:
            await run()
        finally:
            sys.setprofile(None)

    asyncio.run(profiled())
    return count


def a_chunk(run: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    """Return the function calls per chunk: those of a long run minus those of a short run, divided by the chunks between."""
    calls(lambda: run(FEW))  # the first run imports modules and fills caches
    return (calls(lambda: run(MANY)) - calls(lambda: run(FEW))) / (MANY - FEW)


async def bare(chunks: int) -> None:
    given = {"messages": [HumanMessage("talk", id="m-1")]}
    async for _ in talking(chunks).astream(given, stream_mode=["values", "messages", "custom", "updates"]):
        pass


def asked() -> TurnRequest:
    """Return the turn request that TaskRunner would pass to the agent."""
    context = ContextKey("owner", "bench", "context")
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="talk")])
    new = messages.new_task(
        message, context, task_id="t-1", turn_id="turn-1", at=datetime.now(UTC), context_is_new=True
    )
    return TurnRequest(context, Turn("turn-1", "t-1", 1), 1, projection.fold(new_tasks.first_log(new)), message)


async def adapted(chunks: int) -> None:
    async for _ in LangGraphAgent(talking(chunks)).run(asked()):
        pass


def test_adapter_adds_few_python_calls_per_chunk() -> None:
    alone, through = a_chunk(bare), a_chunk(adapted)
    print(f"a chunk: {alone:.1f} calls bare, {through - alone:.1f} more through the adapter")
    assert alone > 20  # fewer calls mean that nothing was streamed
    assert through - alone <= BUDGET * alone


async def sends(app: Any) -> None:
    """Send SENDS blocking messages over JSON-RPC; the agent streams ten chunks for each message."""
    for _ in range(SENDS):
        body = [json.dumps(request("10 0", streaming=False)).encode()]
        answer: list[Any] = []

        async def receive(body: list[bytes] = body) -> Any:
            return {"type": "http.request", "body": body.pop(), "more_body": False}

        async def keep(message: Any, answer: list[Any] = answer) -> None:
            answer.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"a2a-version", b"1.0")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await app({**scope, "server": ("127.0.0.1", 80), "scheme": "http"}, receive, keep)
        assert b"TASK_STATE_COMPLETED" in answer[1]["body"]


def served(trace: str = "off") -> Any:
    """Return the app of aion_core with the benchmark's graph, with or without a trace of its turns."""
    environ = {"AION_CONFIG": str(ROOT / "bench/aion.yaml"), "AION_STORE": "memory", "AION_AUTH": "off"}
    return build_app(Settings.from_environ({**environ, "AION_TRACE": trace}))


def a_send(app: Any) -> float:
    """Return the calls per blocking send: the least of three counts, because finalizers of earlier tests may run once."""
    calls(lambda: sends(app))  # the first sends import modules and fill caches
    return min(calls(lambda: sends(app)) for _ in range(3)) / SENDS


def test_blocking_send_makes_few_python_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # An earlier test may have enabled log lines below WARNING, which a send makes more of than the bare app.
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)
    ours, bare = a_send(served()), a_send(floor.app)
    print(f"a send: {bare:.0f} calls bare, {ours:.0f} with tasks, records and resumption")
    assert bare > 2000
    assert ours <= SEND_BUDGET * bare


def test_trace_of_turn_costs_few_python_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)
    without, traced = a_send(served()), a_send(served("on"))
    print(f"a send: {without:.0f} calls without a trace, {traced:.0f} with one")
    assert traced > without + 100, "nothing was traced"
    assert traced <= TRACE_BUDGET * without


async def stream(app: Any, chunks: int, sizes: list[int]) -> None:
    """Stream one turn with this number of chunks. Add the sizes of the response's parts."""
    body = [json.dumps(request(f"{chunks} 0", streaming=True)).encode()]

    async def receive() -> Any:
        if not body:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body.pop(), "more_body": False}

    async def keep(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"a2a-version", b"1.0")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    await app({**scope, "server": ("127.0.0.1", 80), "scheme": "http"}, receive, keep)


def a_streamed_chunk(form: str, folder: Path) -> tuple[float, float]:
    """Return the calls and the bytes of a chunk that the app streams with this form of the answer."""
    (folder / "graph.py").write_text((ROOT / "bench/graph.py").read_text())
    config = folder / "aion.yaml"
    config.write_text(f"aion:\n  agents:\n    bench: {{path: graph.py:graph, answer: {form}}}\n")
    app = build_app(Settings.from_environ({"AION_CONFIG": str(config), "AION_STORE": "memory", "AION_AUTH": "off"}))
    few: list[int] = []
    many: list[int] = []
    calls(lambda: stream(app, FEW, []))
    # Take the least of three counts: the writer of chunks wakes up by the clock.
    fewer = min(calls(lambda: stream(app, FEW, few)) for _ in range(3))
    more = min(calls(lambda: stream(app, MANY, many)) for _ in range(3))
    return (more - fewer) / (MANY - FEW), (sum(many) - sum(few)) / (3 * (MANY - FEW))


def test_chunk_of_artifact_costs_what_a_delta_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)
    (delta, delta_bytes), (chunk, chunk_bytes) = (a_streamed_chunk(form, tmp_path) for form in ("message", "artifact"))
    print(
        f"a chunk: {delta:.1f} calls and {delta_bytes:.0f} bytes as a delta, {chunk:.1f} and {chunk_bytes:.0f} as an artifact"
    )
    assert delta > 50
    assert chunk <= 1.05 * delta
    assert chunk_bytes <= delta_bytes


async def garbage_of_sends(app: Any) -> int:
    """Return the number of objects that only the garbage collector can free after SENDS messages."""
    gc.collect()
    gc.disable()
    try:
        await sends(app)
        return gc.collect()
    finally:
        gc.enable()


async def test_blocking_send_leaves_no_cyclic_garbage() -> None:
    """Check that a send leaves no reference cycles: collecting a hundred cyclic objects takes 5 % of a send's time.

    Count three times, because an earlier test's thread or a late import may leave garbage once.
    """
    app = served()
    await sends(app)
    gc.freeze()  # a collection of all objects of the other tests takes a second
    assert min([await garbage_of_sends(app) for _ in range(3)]) < SENDS
