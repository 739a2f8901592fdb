"""Costs of a delegated job of forty minutes: billed seconds, calls of the other agent, and requests to the table.

The functions run in the test's process on an emulated stack, behind a proxy that counts their AWS calls. The test
delivers the queue's messages and moves the clock from one to the next, so that the job takes seconds.
"""

import heapq
import importlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import handlers
from aion_core.bootstrap import build_app
from aion_core.clock import SystemClock
from aion_core.settings import Settings
from aion_tools.stack.lambda_events import LambdaContext, sqs_event
from aion_tools.stack.stack import LocalStack
from tests.support.e2e.fault_proxy import Call, FaultProxy, Rule, fault_proxy
from tests.support.e2e.function_process import ARN
from tests.support.foreign import sdk_server
from tests.support.listening import free_port, listening
from tests.support.server import ROOT, TIMEOUT

AGENT = ROOT / "tests" / "support" / "agents" / "delegating.py"
JOB = timedelta(minutes=40)


class MovedClock(SystemClock):
    """The machine's clock, some time ahead."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass
class Deployment:
    """ApiFunction and TaskFunction, and what they cost."""

    stack: LocalStack
    proxy: FaultProxy
    url: str
    billed: list[float] = field(default_factory=list)
    """Seconds of each invocation, in order."""
    delayed: list[tuple[float, str]] = field(default_factory=list)
    """Times at which messages become visible, with their bodies, as a heap."""
    _early: list[dict[str, Any]] = field(default_factory=list)
    """Messages that the queue has delivered before their time."""
    _handler: Any = None

    def starts(self, config: Path) -> Any:
        """Return the app of ApiFunction, and load TaskFunction."""
        self._handler = importlib.import_module("handlers.run_task").handler
        app = build_app(Settings.from_environ())

        async def invoked(scope: Any, receive: Any, send: Any) -> None:
            begun = time.monotonic()
            try:
                await app(scope, receive, send)
            finally:
                if scope["type"] == "http":
                    self.billed.append(time.monotonic() - begun)

        return invoked

    async def delay(self, call: Call) -> bytes | None:
        """Pass a message on at once, and note when it is to become visible."""
        request = json.loads(call.body)
        at = time.time() + MovedClock.ahead.total_seconds() + int(request.pop("DelaySeconds", 0))
        heapq.heappush(self.delayed, (at, request["MessageBody"]))
        call.body = json.dumps(request).encode()
        call.head = call.head.replace(b"Content-Length: ", b"X-Was: ").replace(b"content-length: ", b"x-was: ")
        call.head = call.head[:-2] + f"Content-Length: {len(call.body)}\r\n\r\n".encode()
        return await call.forward()

    def delivers(self, before: datetime) -> bool:
        """Deliver the next message, at its time. Return False if it becomes visible later than `before`."""
        if not self.delayed or self.delayed[0][0] > before.timestamp():
            return False
        at, body = heapq.heappop(self.delayed)
        MovedClock.ahead = max(MovedClock.ahead, timedelta(seconds=at - time.time() + 0.01))
        event = sqs_event([self._received(body)], ARN)
        # The handler reads the deadline from the machine's clock.
        context = LambdaContext("function", "arn", 1024, 900 + int(MovedClock.ahead.total_seconds()))
        begun = time.monotonic()
        assert not self._handler(event, context)["batchItemFailures"]
        self.billed.append(time.monotonic() - begun)
        return True

    def _received(self, body: str) -> dict[str, Any]:
        """Return the message with this body from the queue. Later messages come with it, and are kept."""
        sqs, queue = self.stack.client("sqs"), self.stack.physical_id("TaskQueue")
        while (message := next((each for each in self._early if each["Body"] == body), None)) is None:
            received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"])
            self._early += received.get("Messages", [])
        self._early.remove(message)
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return message

    def send(self, text: str, **configuration: Any) -> str:
        """Send a message in a context of its own, and return its task's id."""
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
        return str(self.rpc("SendMessage", message=message, configuration=configuration)["task"]["id"])

    def rpc(self, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(self.url, json=body, headers={"A2A-Version": "1.0"}, timeout=TIMEOUT).json()
        return answer["result"]

    @property
    def requests(self) -> int:
        """Return the number of requests to the table."""
        return sum(count for name, count in self.proxy.calls.items() if name.startswith("dynamodb."))


@contextmanager
def deployed(folder: Path, remote: str, callback: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "handlers.run_task", raising=False)
    monkeypatch.delattr(handlers, "run_task", raising=False)
    monkeypatch.setattr("aion_core.bootstrap.turns.SystemClock", MovedClock)
    monkeypatch.setattr(MovedClock, "ahead", timedelta())
    config = folder / "aion.yaml"
    config.write_text(
        f"aion:\n  remotes:\n    remote: {{url: {remote}, callback: {callback}}}\n"
        f"  agents:\n    node: {{path: '{AGENT}:node'}}\n"
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as running:
        stack = running.enter_context(LocalStack.start("template.yaml"))
        proxy = running.enter_context(fault_proxy(stack.endpoint))
        own = {"AION_AUTH": "off", "AION_CONFIG": str(config), "AION_BASE_URL": url, "AWS_ENDPOINT_URL": proxy.url}
        for name, value in {**stack.environment("ApiFunction"), **own}.items():
            monkeypatch.setenv(name, value)
        deployment = Deployment(stack, proxy, url)
        proxy.rules = [Rule("sqs", deployment.delay, ("SendMessage",))]
        running.enter_context(listening(deployment.starts(config), port=port))
        yield deployment


@pytest.mark.parametrize(("callback", "most_calls"), [("off", 20), ("on", 3)])
def test_delegated_job_of_forty_minutes_costs_seconds(
    callback: str, most_calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Mapping[str, str]] = []
    end = tmp_path / "end"
    with sdk_server(heard=heard) as remote, deployed(tmp_path, remote, callback, monkeypatch) as deployment:
        # A new environment imports the agent in its init phase. Here the first message does.
        deployment.send("say hello", returnImmediately=False)
        while deployment.delivers(MovedClock().now() + JOB):
            pass
        for counted in (heard, deployment.billed, deployment.proxy.calls):
            counted.clear()
        task = deployment.send(f"hold {end}", returnImmediately=True)
        _until(lambda: deployment.delayed)
        ends = MovedClock().now() + JOB
        while deployment.delivers(ends):
            pass
        MovedClock.ahead += ends - MovedClock().now()
        end.touch()
        _until(lambda: deployment.delayed[0][0] <= MovedClock().now().timestamp(), 60 if callback == "on" else 1)
        while deployment.delivers(ends + timedelta(minutes=5)):
            pass
        noticed = (MovedClock().now() - ends).total_seconds()
        requests, billed = deployment.requests, sum(deployment.billed)
        print(
            f"callback {callback}: {len(deployment.billed)} invocations, {billed:.2f} s billed, {len(heard)} calls of the "
            f"remote agent, {requests} requests to the table; its end was noticed after {noticed:.0f} s"
        )
        status = deployment.rpc("GetTask", id=task)["status"]
        assert status["message"]["parts"][0]["text"] == "Held."
        assert len(heard) <= most_calls
        assert requests <= 60
        assert noticed <= 300 if callback == "off" else noticed < 10


def _until(condition: Any, seconds: float = TIMEOUT) -> None:
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.02)
