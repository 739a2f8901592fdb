"""Fleet: processes of the API and the functions on one emulated stack, with clients that record the faults they see."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from msgspec.structs import replace

from aion_core.engine.records import Delta
from aion_core.protocol.errors import SERVICE_UNAVAILABLE
from aion_tools.stack import REGION
from aion_tools.stack.stack import LocalStack
from aion_tools.template.reader import Place
from tests.support.e2e.agents.noting import STEPS, Note, expected_texts, read_notes, streamed_texts
from tests.support.e2e.api_process import ApiProcess, api_process
from tests.support.e2e.fault_proxy import FaultProxy, fault_proxy
from tests.support.e2e.forked import ForkedProcess
from tests.support.e2e.function_process import POLLED_AT, function_process
from tests.support.server import ROOT
from tests.support.service import send
from tests.support.streams import faults_of_text

CONFIG = ROOT / "tests" / "support" / "e2e" / "agents" / "noting.yaml"
LEASE_SECONDS = 10.0
SWEEP_SECONDS = 4.0
UNSUPPORTED_OPERATION = -32004
"""JSON-RPC code of a refused operation (A2A 5.4)."""
PATIENCE = 600.0
"""Longest time in seconds for the turns of a test on a busy machine; it expires only on a failure."""


@dataclass
class Fleet:
    """Processes of the API and of the functions; a proxy passes their AWS calls to the emulator."""

    stack: LocalStack
    proxy: FaultProxy
    notes: Path
    running: ExitStack
    environ: dict[str, str]
    sweep_seconds: float = SWEEP_SECONDS
    apis: list[ApiProcess] = field(default_factory=list)
    workers: list[ForkedProcess] = field(default_factory=list)

    def add_api(self) -> None:
        """Start another API process."""
        self.apis.append(self.running.enter_context(api_process(self.stack, CONFIG, **self.environ)))

    def add_worker(self) -> None:
        """Start another process of TaskFunction."""
        environ = {**self.environ, "AION_CONFIG": str(CONFIG)}
        self.workers.append(
            self.running.enter_context(function_process(self.stack, "TaskFunction", "TaskQueue", **environ))
        )

    def add_functions(self) -> None:
        """Start PushFunction and SweepFunction."""
        environ = {**self.environ, "AION_CONFIG": str(CONFIG)}
        self.running.enter_context(function_process(self.stack, "PushFunction", "PushQueue", **environ))
        self.running.enter_context(function_process(self.stack, "SweepFunction", "", self.sweep_seconds, **environ))

    def api_pids(self) -> list[int]:
        """Return the ids of the API processes."""
        return [api.process.pid for api in self.apis]

    def worker_pids(self) -> list[int]:
        """Return the ids of the processes of TaskFunction."""
        return [worker.pid for worker in self.workers]

    def send_signal(self, pid: int, number: signal.Signals) -> float:
        """Send a process the signal and remove it from the fleet; return the monotonic time of the signal."""
        at = time.monotonic()
        os.kill(pid, number)
        self.apis = [api for api in self.apis if api.process.pid != pid]
        self.workers = [worker for worker in self.workers if worker.pid != pid]
        return at

    def running_steps(self, turns: "Sequence[FleetTurn]", pids: Container[int]) -> list[Note]:
        """Return the "begin" note of each step of `turns` now running in one of the processes `pids`."""
        names, begun = {turn.name for turn in turns}, dict[tuple[str, str, int], Note]()
        for note in read_notes(self.notes):
            if note.word == "begin":
                # Remove the process's earlier steps of this turn, because a process runs one step of a turn at a time.
                begun = {key: each for key, each in begun.items() if key[::2] != (note.turn, note.pid)}
                begun[note.turn, note.step, note.pid] = note
            else:
                begun.pop((note.turn, note.step, note.pid), None)
        return [note for note in begun.values() if note.turn in names and note.pid in pids]


@contextmanager
def emulator_process() -> Iterator[Place]:
    """Run the emulator with the template's resources in a separate process; yield its endpoint, account and region."""
    command = [sys.executable, "-m", "aion_tools.stack.stack"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as emulator:
        try:
            assert emulator.stdout is not None
            served = json.loads(emulator.stdout.readline())
            account = urlsplit(served["environment"]["TaskFunction"]["AION_TASK_QUEUE_URL"]).path.split("/")[1]
            yield Place(account, REGION, served["endpoint"], "local")
        finally:
            emulator.kill()


@contextmanager
def fleet(notes: Path, *, sweep_seconds: float = SWEEP_SECONDS, **environ: str) -> Iterator[Fleet]:
    """Start an emulator process, a proxy, two API processes, two workers, PushFunction and SweepFunction."""
    with ExitStack() as running:
        place = running.enter_context(emulator_process())
        proxy = running.enter_context(fault_proxy(place.endpoint))
        stack = LocalStack.at(ROOT / "template.yaml", replace(place, endpoint=proxy.url))
        here = {
            "NOTED_IN": str(notes),
            "AION_LEASE_SECONDS": str(LEASE_SECONDS),
            # Use a longer timeout than the default, so that AWS calls on a busy test machine do not time out.
            "AION_STORE_TIMEOUT": "10",
            "AION_PUSH_HTTP": "true",
            "AION_PUSH_NETWORKS": "127.0.0.0/8",
            POLLED_AT: place.endpoint,
            **environ,
        }
        started = Fleet(stack, proxy, notes, running, here, sweep_seconds)
        with ThreadPoolExecutor(3) as pool:
            starts = [started.add_api, started.add_api, started.add_worker, started.add_worker, started.add_functions]
            for start in [pool.submit(each) for each in starts]:
                start.result()
        yield started


@dataclass
class FleetTurn:
    """Message of a client, and all responses and stream frames for its turn."""

    fleet: Fleet
    agent: str
    kind: str
    """`blocking`, `background` or `streaming`."""
    name: str
    seconds: float = 1.0
    """Length of a step."""
    padding: int = 0
    """Extra characters; a long message is stored in S3."""
    hook: str = ""
    """URL for push notifications, if any."""
    task_id: str = ""
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """SSE id and result of each frame."""
    errors: list[str] = field(default_factory=list)
    """Errors after which the client tried again."""
    arrivals: dict[str, float] = field(default_factory=dict)
    """Monotonic time of each frame with an id."""
    _frame_id: str = ""
    _is_refused: bool = False
    """True if the server has refused the first stream of the task."""

    @property
    def text(self) -> str:
        """Return the text of the message."""
        return f"{self.name} {self.seconds} {'x' * self.padding}".strip()

    def message(self, method: str = "SendMessage") -> dict[str, Any]:
        """Return the JSON-RPC request, always with the same messageId."""
        body = send(self.text, message_id=f"m-{self.name}", contextId=f"c-{self.name}", method=method)
        configuration: dict[str, Any] = {"returnImmediately": self.kind == "background"}
        if self.hook:
            configuration["taskPushNotificationConfig"] = {"url": self.hook}
        body["params"]["configuration"] = configuration
        return body

    async def play(self, client: httpx.AsyncClient) -> None:
        """Send the message and receive the task's events to its end. After an error continue at another API process."""
        async with asyncio.timeout(PATIENCE + 10 * self.seconds):
            while not self.has_ended():
                await self._once(client)
                await asyncio.sleep(0.1)

    async def rpc(self, client: httpx.AsyncClient, url: str, method: str, **params: Any) -> dict[str, Any]:
        """Call a JSON-RPC method of the API process at `url`; return its result."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._answer(client, url, body)

    async def repeat(self, client: httpx.AsyncClient, url: str) -> dict[str, Any]:
        """Send the turn's message, with the same messageId, to the API process at `url`; return the result."""
        return await self._answer(client, url, self.message())

    async def _answer(self, client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the request; repeat the request while the error is SERVICE_UNAVAILABLE."""
        while True:
            answer = (await client.post(f"{url}/agents/{self.agent}/", json=body)).json()
            if "result" in answer:
                return dict(answer["result"])
            assert answer["error"]["code"] == SERVICE_UNAVAILABLE, answer
            self.errors.append(str(answer["error"]))

    async def _once(self, client: httpx.AsyncClient) -> None:
        """Send the message to the next API process, or subscribe there if the task exists."""
        api = self.fleet.apis[next(_places) % len(self.fleet.apis)]
        try:
            if self.task_id:
                params = {"id": self.task_id}
                body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": params}
                await self._read(client, api.url, body)
                if self._is_refused:
                    # The task has ended before its first stream: the server refuses to stream it (A2A 3.1.6).
                    task = await self.rpc(client, api.url, "GetTask", **params)
                    assert state_of(task).endswith(("COMPLETED", "FAILED", "CANCELED")), self.errors
                    self._take("", {"result": {"task": task}})
            elif self.kind == "streaming":
                await self._read(client, api.url, self.message("SendStreamingMessage"))
            else:
                answer = await client.post(f"{api.url}/agents/{self.agent}/", json=self.message())
                self._take("", answer.json())
        except (httpx.TransportError, json.JSONDecodeError) as error:
            self.errors.append(repr(error))

    async def _read(self, client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> None:
        ids = [frame_id for frame_id, _ in self.received if frame_id]
        headers = {"Last-Event-ID": ids[-1]} if ids else {}
        async with client.stream("POST", f"{url}/agents/{self.agent}/", json=body, headers=headers) as answer:
            if answer.headers["content-type"].startswith("application/json"):
                self._take("", json.loads(await answer.aread()))
                return
            async for line in answer.aiter_lines():
                self.take_lines([line])

    def take_lines(self, lines: Iterable[str]) -> None:
        """Parse further lines of an SSE stream."""
        for line in lines:
            if line.startswith("id: "):
                self._frame_id = line.removeprefix("id: ")
            elif line.startswith("data: "):
                self._take(self._frame_id, json.loads(line.removeprefix("data: ")))
                self._frame_id = ""

    def _take(self, frame_id: str, answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.errors.append(str(answer["error"]))
            is_first_stream = self.kind == "background" and not any(frame_id for frame_id, _ in self.received)
            self._is_refused = is_first_stream and answer["error"]["code"] == UNSUPPORTED_OPERATION
            # Only SERVICE_UNAVAILABLE lets the client try again; any other error is a bug of the server.
            assert self._is_refused or answer["error"]["code"] == SERVICE_UNAVAILABLE, answer
            return
        result = answer["result"]
        if "task" in result and not self.task_id:
            self.task_id = result["task"]["id"]
        self.received.append((frame_id, result))
        self.arrivals[frame_id] = time.monotonic()

    def has_ended(self) -> bool:
        """Return True if the client has received the final state."""
        return bool(self.received) and state_of(self.received[-1][1]).endswith(("COMPLETED", "FAILED", "CANCELED"))

    def faults(self) -> Iterator[str]:
        """Yield the faults of the received stream: lost, repeated or reordered events, and repeated text."""
        numbers = [int(frame_id) for frame_id, _ in self.received if frame_id.isdecimal()]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            yield f"{self.name}: the events {numbers}"
        chunks: list[tuple[str, object]] = []
        for frame_id, result in self.received:
            update = result.get("artifactUpdate")
            if update is not None and update["artifact"]["artifactId"] == "aion:stream-delta":
                text = "".join(part.get("text", "") for part in update["artifact"]["parts"])
                chunks.append((frame_id, Delta(text, bool(update.get("append")))))
            else:
                chunks.append((frame_id, None))
        whole = streamed_texts(self.agent, self.name, self.seconds)

        def is_true(_: str, text: str) -> bool:
            return any(each.startswith(text) for each in whole)

        yield from (f"{self.name}: {fault}" for fault in faults_of_text(chunks, is_true))


_places = itertools.count()


def state_of(result: dict[str, Any]) -> str:
    """Return the task state in a JSON-RPC result; "" if the result has none."""
    status = (result.get("task") or result.get("statusUpdate") or result).get("status") or {}
    return str(status.get("state", ""))


RESUMING = ("graph", "sequence")
"""The agents that run no finished step again. After a crash the executor starts over."""


def a_turn_of_each(
    fleet: Fleet, prefix: str, rounds: int = 1, *, agents: Sequence[str] = RESUMING, **options: Any
) -> list[FleetTurn]:
    """Return `rounds` turns for each pair of agent and request (blocking, background, streaming)."""
    kinds = itertools.product(range(rounds), agents, ("blocking", "background", "streaming"))
    return [FleetTurn(fleet, agent, kind, f"{prefix}-{n}-{agent}-{kind}", **options) for n, agent, kind in kinds]


async def until(condition: Callable[[], Any], what: str, *, seconds: float = PATIENCE) -> Any:
    """Wait until the condition returns a true value; return this value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"never: {what}")


@dataclass
class Figures:
    """Measurements of a test's turns: lost, doubled and repeated work, and recovery times."""

    turns: int
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    run_again: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    repeats: int = 0
    """Number of requests that clients repeated."""
    extra: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the figures as one line."""
        told = f"{self.turns} turns, lost {len(self.lost)}, doubled {len(self.doubled)}, "
        told += f"finished nodes run again {len(self.run_again)}, repeated requests {self.repeats}"
        if self.recoveries:
            told += (
                f", recovery p50 {quantile(self.recoveries, 0.5):.1f} s, p95 {quantile(self.recoveries, 0.95):.1f} s"
            )
            told += (
                f", max {max(self.recoveries):.1f} s ({len(self.recoveries)} handovers, lease {LEASE_SECONDS:.0f} s)"
            )
        return ", ".join([told, *self.extra])

    def check(self) -> None:
        """Assert that nothing was lost, doubled or run again. Recovery times are printed only: a busy machine adds to them."""
        assert (self.lost, self.doubled, self.run_again) == ([], [], [])


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile `share` (0 to 1) of the values, or 0.0 without values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


async def played(turns: Sequence[FleetTurn], meanwhile: Awaitable[Any] | None = None) -> Figures:
    """Run the turns and await `meanwhile` concurrently; return the figures."""
    # Expire idle connections before uvicorn closes them, after 5 s: a request on one that is being closed would fail.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=2.0)
    async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
        playing = [asyncio.create_task(turn.play(client)) for turn in turns]
        if meanwhile is not None:
            await meanwhile
        ended = await asyncio.gather(*playing, return_exceptions=True)
        turns[0].fleet.proxy.rules = []
        figures = Figures(len(turns), repeats=sum(len(turn.errors) for turn in turns))
        for turn, end in zip(turns, ended, strict=True):
            if end is not None:
                figures.lost.append(f"{turn.name}: {end!r}; {turn.errors[-3:]}")
            else:
                await _compare(turn, client, figures)
    resuming = {turn.name for turn in turns if turn.agent in RESUMING}
    figures.run_again = list(run_again(read_notes(turns[0].fleet.notes), resuming))
    return figures


async def _compare(turn: FleetTurn, client: httpx.AsyncClient, figures: Figures) -> None:
    """Add to `figures` each difference between the stored task and the expected texts, and each duplicate task."""
    for api in turn.fleet.apis:
        task = await turn.rpc(client, api.url, "GetTask", id=turn.task_id)
        texts = [entry["parts"][0]["text"] for entry in task["history"]]
        wanted = [turn.text, *expected_texts(turn.agent, turn.name, turn.seconds)]
        if not state_of(task).endswith("COMPLETED") or Counter(wanted) - Counter(texts):
            figures.lost.append(f"{turn.name}: {state_of(task)} {[text[:60] for text in texts]}; {turn.errors[-3:]}")
        elif texts != wanted:
            figures.doubled.append(f"{turn.name}: {[text[:60] for text in texts]}")
        again = await turn.repeat(client, api.url)
        listed = (await turn.rpc(client, api.url, "ListTasks", contextId=f"c-{turn.name}"))["tasks"]
        if again["task"]["id"] != turn.task_id or [each["id"] for each in listed] != [turn.task_id]:
            figures.doubled.append(f"{turn.name}: {len(listed)} tasks")
    figures.doubled += turn.faults()


def run_again(notes: Sequence[Note], turns: set[str]) -> Iterator[str]:
    """Yield each step that ran again although a later step of its turn had already begun."""
    reached: dict[str, int] = {}
    for note in notes:
        if note.turn in turns and note.word == "begin":
            place = STEPS.index(note.step)
            if place < reached.get(note.turn, 0):
                yield f"{note.turn}: {note.step} after {STEPS[reached[note.turn]]}"
            reached[note.turn] = max(place, reached.get(note.turn, 0))


def recovery(notes: Sequence[Note], cut: Note, at: float) -> float | None:
    """Return the seconds from the kill at `at` to the next step of the turn of `cut` in another process, or None."""
    later = [note.at for note in notes if note.turn == cut.turn and note.pid != cut.pid and note.at > at]
    return later[0] - at if later else None


@dataclass(frozen=True)
class Resources:
    """Total resident memory, open descriptors and threads of several processes."""

    megabytes: float
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pids: Iterable[int]) -> Self:
        """Measure the processes."""
        folders = [Path(f"/proc/{pid}") for pid in pids]
        status = [
            dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines()) for folder in folders
        ]
        return cls(
            round(sum(int(each["VmRSS"].split()[0]) for each in status) / 1024, 1),
            sum(len(list((folder / "fd").iterdir())) for folder in folders),
            sum(int(each["Threads"]) for each in status),
        )

    def __str__(self) -> str:
        """Return the figures as text."""
        return f"{self.megabytes:.0f} MB, {self.descriptors} descriptors, {self.threads} threads"
