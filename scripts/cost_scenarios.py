"""Scenarios of the cost model, run on the emulated stack to count their AWS requests."""

import asyncio
import importlib
import io
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.schemes.api_key import make_key
from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import SystemClock
from aion_tools.stack.lambda_events import LambdaContext, sqs_event
from aion_tools.stack.stack import LocalStack
from scripts.metering import Meter

ROOT = Path(__file__).parents[1]
AGENT = """
import asyncio, runpy, sys
names = runpy.run_path({echo!r})
class Slow(names["EchoModel"]):
    async def _astream(self, messages, *args, **kwargs):
        chunks = list(self._stream(messages))
        for chunk in chunks:
            await asyncio.sleep({pause} if len(chunks) > 10 else 0)
            yield chunk
async def answer(state):
    return {{"messages": [await Slow().ainvoke(state["messages"])]}}
graph = names["StateGraph"](names["MessagesState"]).add_node("answer", answer).add_edge(names["START"], "answer").compile()
"""

CONFIG = """
aion:
  security: {schemes: {key: {type: api-key}}}
  agents: {echo: {path: agent.py}}
"""


@dataclass(frozen=True)
class Scenario:
    """Scenario of the cost model, with assumed values for quantities that the emulator cannot measure."""

    name: str
    run: "Callable[[World], Awaitable[None]]"
    api_requests: int
    invocations: int
    gb_seconds: float
    """Assumed Lambda usage, as seconds times GB of memory, at 1024 MB."""
    gb_seconds_at_512: float
    """The same at 512 MB: waiting takes as long, and computing, about 0.17 s of a turn, twice as long."""
    exact: bool = True
    """True if every run of the scenario has the same counts. Counts of scenarios that depend on time vary."""


class LogBytes(io.StringIO):
    """Standard output of the functions. It counts the bytes that CloudWatch Logs charges, and keeps nothing."""

    counted = 0

    def write(self, text: str) -> int:
        """Count the text, with 26 bytes for each line."""
        self.counted += len(text.encode()) + 26 * text.count("\n")
        return len(text)

    def take(self) -> int:
        """Return the number of bytes since the last call."""
        counted, self.counted = self.counted, 0
        return counted


class World:
    """Environment of a scenario: the emulated stack, a client of ApiFunction's app, and a webhook."""

    def __init__(
        self, stack: LocalStack, client: httpx.AsyncClient, webhook: str, meter: Meter, logged: "LogBytes"
    ) -> None:
        self.stack, self.client, self.meter, self._webhook, self._logged = stack, client, meter, webhook, logged
        self._number = 0

    def take(self) -> Counter[str]:
        """Return the counts since the last call and reset them."""
        return self.meter.take() + Counter(log_bytes=self._logged.take())

    async def send(self, method: str, text: str, **configuration: Any) -> dict[str, Any]:
        """Send a message in a new context and return the first result of the response."""
        self._number += 1
        message = {"messageId": f"m-{self._number}", "role": "ROLE_USER", "parts": [{"text": text}]}
        params = {"message": message, "configuration": configuration}
        return await self.call(method, params)

    async def call(self, method: str, params: dict[str, Any], *, seconds: float = 60.0) -> dict[str, Any]:
        """Call a JSON-RPC method and return its first result. Read a stream to its end, or for at most `seconds`."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        first: dict[str, Any] = {}
        headers = {"A2A-Version": "1.0"}
        try:
            async with (
                asyncio.timeout(seconds),
                self.client.stream("POST", "/", json=body, headers=headers) as answer,
            ):
                async for line in answer.aiter_lines():
                    if not first and "{" in line:
                        first = json.loads(line.removeprefix("data: "))
        except TimeoutError:
            return {}
        if "result" not in first:
            raise RuntimeError(f"{method} returned {first}")
        result: dict[str, Any] = first["result"]
        return result

    async def answer(self, function: str, module: str, queue: str) -> None:
        """Call a function's handler with the messages of a queue until the queue is empty."""
        sqs, url = self.stack.client("sqs"), self.stack.physical_id(queue)
        handler = importlib.import_module(module).handler
        while messages := sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["All"], WaitTimeSeconds=0).get(
            "Messages"
        ):
            context = LambdaContext(function, f"arn:aws:lambda:us-east-1:1:function:{function}", 1024, 900)
            event = sqs_event(messages, self.stack.template.attribute(queue, "Arn", queue))
            await asyncio.to_thread(handler, event, context)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])

    @property
    def webhook(self) -> dict[str, Any]:
        """Configuration of a SendMessage request with the local webhook as push config."""
        return {"taskPushNotificationConfig": {"url": self._webhook}}


async def _blocking(world: World) -> None:
    await world.send("SendMessage", "Hello, who is there?")


async def _streamed(world: World) -> None:
    await world.send("SendStreamingMessage", " ".join(f"word{number}" for number in range(100)))
    # The turn's lease has a delayed wake-up message, sent in case the process dies. Wait until it arrives, to count
    # it too.
    await asyncio.sleep(31)
    await world.answer("TaskFunction", "handlers.run_task", "TaskQueue")


async def _queued(world: World) -> None:
    await world.send("SendMessage", "Hello", returnImmediately=True, **world.webhook)
    await world.answer("TaskFunction", "handlers.run_task", "TaskQueue")
    await world.answer("PushFunction", "handlers.deliver_push", "PushQueue")


async def _subscribed(world: World) -> None:
    # Start a task whose turn stays queued, because no worker runs: then the subscription receives no events.
    task = (await world.send("SendMessage", "Hello", returnImmediately=True))["task"]
    world.take()
    await world.call("SubscribeToTask", {"id": task["id"]}, seconds=60)


async def _swept(world: World) -> None:
    # Run the turn that the scenario before this one has left, because its timer may have expired.
    await world.answer("TaskFunction", "handlers.run_task", "TaskQueue")
    world.take()
    handler = importlib.import_module("handlers.sweep").handler
    await asyncio.to_thread(handler, {}, LambdaContext("SweepFunction", "arn", 256, 60))


SCENARIOS = (
    Scenario("a blocking turn", _blocking, 1, 1, 2.0, 1.09),
    Scenario("a turn of 100 chunks in 5 s, streamed", _streamed, 1, 2, 5.02, 2.7, exact=False),
    Scenario("a queued turn and one webhook", _queued, 1, 4, 3.6, 2.2),
    Scenario("a minute of subscription without events", _subscribed, 1, 1, 60.0, 30.0, exact=False),
    Scenario("a sweep without expired timers", _swept, 0, 1, 0.05, 0.05),
)


async def measured() -> dict[str, Counter[str]]:
    """Run the scenarios and return their request counts by scenario name.

    An exact scenario runs twice, and only the second run counts, since the first run fills the caches.
    """
    counted = {}
    with (
        redirect_stdout(LogBytes()) as logged,
        tempfile.TemporaryDirectory() as folder,
        LocalStack.start(ROOT / "template.yaml") as stack,
        _webhook() as hook,
    ):
        (Path(folder) / "agent.py").write_text(
            AGENT.format(echo=str(ROOT / "examples" / "echo" / "agent.py"), pause=0.05), encoding="utf-8"
        )
        (Path(folder) / "aion.yaml").write_text(CONFIG, encoding="utf-8")
        os.environ.update(stack.environment("ApiFunction"))
        os.environ.update(
            AION_CONFIG=f"{folder}/aion.yaml",
            AWS_LAMBDA_FUNCTION_NAME="counted",
            AION_HTTP_ENTRYPOINTS="",
            AION_BASE_URL="http://127.0.0.1",
            AION_PUSH_HTTP="true",
            AION_PUSH_NETWORKS="127.0.0.0/8",
        )
        os.environ.pop("AWS_PROFILE", None)
        app = importlib.import_module("handlers.api").app
        meter = stack.emulator.wrap(lambda application: Meter(application, stack.emulator.account))
        key = make_key("caller", now=SystemClock().now())
        await ApiKeys(
            DynamoDBTable(AwsClient("dynamodb", ThreadPoolExecutor(1)), name=os.environ["AION_TABLE"]), SystemClock()
        ).add(key.record)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers={"X-API-Key": key.text}
        ) as client:
            world = World(stack, client, hook, meter, logged)
            for scenario in SCENARIOS:
                if scenario.exact:
                    await scenario.run(world)
                # Let the limits' time pass within which a caller's next request costs a second write.
                await asyncio.sleep(0.1)
                world.take()
                await scenario.run(world)
                counted[scenario.name] = world.take()
    return counted


@contextmanager
def _webhook() -> Iterator[str]:
    """Serve a webhook for all POST requests and yield its URL."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response_only(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
