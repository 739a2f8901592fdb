"""Stream that Lambda or API Gateway throttles after the first bytes."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.engine.agent import Chunk, Emission, Reply, TurnRequest
from aion_core.engine.records import Lease
from aion_core.engine.stream.broadcast import MAX_BATCH
from aion_core.lambda_runtime.application import Lifespan
from aion_core.lambda_runtime.loop import InvocationLoop
from aion_core.lambda_runtime.runtime_api import RuntimeApiCall
from aion_core.lambda_runtime.settings import RuntimeSettings
from tests.support.agents.scripted import GatedAgent, says
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.service import parts, send
from tests.support.stores import MemoryTaskStore

PIECES = [f"{number:04d} ".ljust(8192, ".") for number in range(3000)]
"""Chunks of 24 MB, more than the buffers of a connection."""
FRAME_BYTES = 9000
FIRST_BYTES, BYTES_A_SECOND = 1_000_000, 2_000_000
"""Bytes before the throttling starts (a tenth of API Gateway's limit), and bytes in each virtual second afterwards."""


class LongTalker(GatedAgent):
    """Agent that streams all its chunks, then waits until the test releases it, and then replies."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        for piece in PIECES:
            yield Chunk(piece, "call")
        self.spoke.set()
        await self.go.wait()
        yield Reply(says("done"))


class RenewalStore(MemoryTaskStore):
    """Store that counts lease renewals."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.renewed, self._loop = asyncio.Semaphore(0), asyncio.get_running_loop()

    def renew(self, lease: Lease) -> bool:
        self._loop.call_soon_threadsafe(self.renewed.release)
        return super().renew(lease)


async def test_throttled_stream_is_complete_with_bounded_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow reader must not slow the turn down: the turn renews its lease, and the connection's buffer stays small."""
    agent, store, buffered = LongTalker(), RenewalStore(), []
    write = RuntimeApiCall.write

    def recorded(call: RuntimeApiCall, data: bytes) -> None:
        write(call, data)
        transport = call._writer.transport
        buffered.append(transport.get_write_buffer_size() - transport.get_write_buffer_limits()[1])

    monkeypatch.setattr(RuntimeApiCall, "write", recorded)
    app: Any = parts(agent, store, lease_seconds=1.5).app()
    event = function_url_event("/", method="POST", body=json.dumps(send(method="SendStreamingMessage")))
    event["headers"]["content-type"] = "application/json"
    async with FakeRuntimeApi() as api, Lifespan(app) as lifespan:
        invocation = api.invoke(event)
        invocation.throttle(FIRST_BYTES)
        serving = asyncio.create_task(InvocationLoop(app, RuntimeSettings(api.address), lifespan).serve_next())
        await agent.spoke.wait()
        for _ in range(3):
            await store.renewed.acquire()
        assert invocation.received < FIRST_BYTES + 200_000, "it is throttled"
        agent.go.set()
        seconds = 0
        while not invocation.is_answered:
            await invocation.allow(BYTES_A_SECOND)
            seconds += 1
        await serving
        assert invocation.answer is not None
    frames = [
        json.loads(line[6:])["result"] for line in invocation.answer.body.splitlines() if line.startswith(b"data: ")
    ]
    updates = [frame["artifactUpdate"]["artifact"]["parts"] for frame in frames if "artifactUpdate" in frame]
    # Skip the empty text of the frame that closes the artifact.
    assert [part["text"] for parts in updates for part in parts if part["text"]] == PIECES
    assert frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert invocation.answer.trailers == {}
    print(
        f"{invocation.received} bytes in {seconds} virtual seconds; largest buffer {max(buffered)} bytes above its limit"
    )
    assert seconds >= len(PIECES) * 8192 / BYTES_A_SECOND
    assert max(buffered) <= MAX_BATCH * FRAME_BYTES
