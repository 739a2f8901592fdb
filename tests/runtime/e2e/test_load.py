"""Load tests: many subscribers of one task, many messages to one server, and a stream longer than an invocation.

The summary of the test run has the figures of each test.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from aion_core.aws.client import WORKERS
from aion_tools.stack.stack import LocalStack
from tests.support.e2e.api_process import api_process
from tests.support.e2e.fleet import (
    CONFIG,
    PATIENCE,
    Figures,
    Fleet,
    FleetTurn,
    Resources,
    emulator_process,
    fleet,
    played,
    quantile,
    until,
)
from tests.support.e2e.runtime_process import running
from tests.support.fake_runtime_api import FakeRuntimeApi
from tests.support.recorded import function_url_event
from tests.support.server import ROOT, aion_dev, serving
from tests.support.service import send

pytestmark = [pytest.mark.deep, pytest.mark.timeout(5400)]
Record = Callable[[str, object], None]

SUBSCRIBERS = 100
SENDS = 2000
SENDERS = 8
BRIEF = ROOT / "tests" / "support" / "agents" / "where.yaml"


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet") / "notes", AION_LEASE_SECONDS="30") as started:
        yield started


async def test_hundred_subscribers_receive_each_chunk(processes: Fleet, record_property: Record) -> None:
    """Subscribe at two API processes to a running task: every subscriber receives all later frames."""
    warm = await played([FleetTurn(processes, "graph", "blocking", f"warm-{number}") for number in range(4)])
    warm.check()
    before = Resources.of(processes.api_pids())
    turn = FleetTurn(processes, "graph", "background", "shared", seconds=20.0)
    subscribers = [FleetTurn(processes, "graph", "background", "shared", seconds=20.0) for _ in range(SUBSCRIBERS)]
    during: list[Resources] = []
    reads = [processes.proxy.calls.total()]
    began = time.monotonic()

    async def subscribe() -> None:
        await until(lambda: turn.task_id, "the task was created")
        async with httpx.AsyncClient(timeout=PATIENCE, limits=httpx.Limits(max_connections=None)) as client:
            for subscriber in subscribers:
                subscriber.task_id = turn.task_id
            following = [asyncio.create_task(subscriber.play(client)) for subscriber in subscribers]
            await until(lambda: all(subscriber.received for subscriber in subscribers), "all subscribed")
            during.append(Resources.of(processes.api_pids()))
            await asyncio.gather(*following)
        reads.append(processes.proxy.calls.total())

    figures = await played([turn], subscribe())
    seconds = time.monotonic() - began
    first = {frame: min(each.arrivals.get(frame, began + seconds) for each in subscribers) for frame in turn.arrivals}
    lags = [at - first[frame] for each in subscribers for frame, at in each.arrivals.items() if frame in first]
    whole = list(dict.fromkeys(frame for frame, _ in turn.received))
    for number, each in enumerate(subscribers):
        figures.doubled += each.faults()
        own = [frame for frame, _ in each.received]
        if own[1:] != whole[len(whole) - len(own) + 1 :]:
            figures.lost.append(f"subscriber {number}: {len(own)} of {len(whole)} frames")
    await until(lambda: Resources.of(processes.api_pids()).descriptors <= before.descriptors + 4, "connections closed")
    after = Resources.of(processes.api_pids())
    figures.extra.append(
        f"{SUBSCRIBERS} subscribers, {sum(len(each.received) for each in subscribers)} frames, "
        f"p95 {quantile(lags, 0.95):.2f} s behind the first, {(reads[-1] - reads[0]) / seconds:.0f} store calls a second; "
        f"before {before}; during {during[0]}; after {after}"
    )
    record_property("figures", f"100 subscribers: {figures.line()}")
    figures.check()
    assert after.threads <= before.threads + WORKERS * len(processes.apis), (
        "each process has its threads for calls to AWS"
    )


@contextmanager
def sending_to(store: str, folder: Path) -> Iterator[tuple[str, Callable[[], Iterable[int]]]]:
    """Start a server on the store; yield its URL and a function that returns its process ids."""
    if store == "sqlite":
        with serving(aion_dev("--config", str(BRIEF)), AION_DATA_DIR=str(folder)) as server:
            yield server.url, lambda: tree_of(server.process.pid)
    else:
        with emulator_process() as place:
            stack = LocalStack.at(ROOT / "template.yaml", place)
            with api_process(stack, BRIEF, AION_STORE_TIMEOUT="10") as api:
                yield api.url, lambda: [api.process.pid]


def tree_of(pid: int) -> list[int]:
    """Return the ids of the process and its descendants."""
    children = [
        int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
    ]
    return [pid, *(each for child in children for each in tree_of(child))]


@pytest.mark.parametrize("store", ["sqlite", "dynamodb"])
async def test_server_leaks_no_resources_in_two_thousand_sends(
    store: str, tmp_path: Path, record_property: Record
) -> None:
    """Send 2,000 messages, eight at a time: memory, descriptors and threads of the server do not grow."""
    figures = Figures(SENDS)
    began = time.monotonic()
    measured: list[Resources] = []
    ids: set[str] = set()
    with sending_to(store, tmp_path) as (url, pids):

        async def send_each(client: httpx.AsyncClient, numbers: Iterable[int]) -> None:
            for number in numbers:
                body = send("where", message_id=f"m-{number}", contextId=f"c-{number}")
                task = (await client.post(url, json=body)).json()["result"]["task"]
                ids.add(task["id"])
                if task["status"]["state"] != "TASK_STATE_COMPLETED":
                    figures.lost.append(f"{number}: {task['status']['state']}")

        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for quarter in range(4):
                # The senders share one iterator, so each number is sent once.
                numbers = iter(range(quarter * SENDS // 4, (quarter + 1) * SENDS // 4))
                await asyncio.gather(*(send_each(client, numbers) for _ in range(SENDERS)))
                measured.append(Resources.of(pids()))
    figures.doubled = [f"{SENDS - len(ids)} tasks"] if len(ids) < SENDS else []
    rate = SENDS / (time.monotonic() - began)
    figures.extra.append(f"{rate:.1f} a second; " + "; ".join(f"{each}" for each in measured))
    record_property("figures", f"{SENDS} sends, {store}: {figures.line()}")
    figures.check()
    first, last = measured[0], measured[-1]
    assert last.megabytes <= first.megabytes * 1.1 + 10
    assert last.descriptors <= first.descriptors + SENDERS
    assert last.threads <= first.threads + SENDERS


@pytest.mark.parametrize(
    ("step", "invocation"), [(15.0, 40.0), (100.0, 300.0), (300.0, 900.0)], ids=["1 minute", "7 minutes", "20 minutes"]
)
async def test_client_receives_whole_stream_beyond_invocation_end(
    processes: Fleet, record_property: Record, step: float, invocation: float
) -> None:
    """Stream a turn of four steps. Its invocation ends during the third; the client continues at another process."""
    turn = FleetTurn(processes, "graph", "streaming", f"long-{step:.0f}", seconds=step)
    here = {**processes.stack.environment("ApiFunction"), **processes.environ}
    # Disable authentication, so that all processes see the same caller. AION_AUTH=off requires AWS_SAM_LOCAL here.
    here |= {"AION_AUTH": "off", "AWS_SAM_LOCAL": "true", "AION_CONFIG": str(CONFIG)}
    here.pop("AWS_LAMBDA_EXEC_WRAPPER", None)
    began = time.monotonic()
    async with FakeRuntimeApi([]) as api, running("handlers.api:app", api=api.address, environ=here):
        body = json.dumps(turn.message("SendStreamingMessage"))
        event = function_url_event("/agents/graph/", method="POST", body=body)
        event["headers"] |= {"content-type": "application/json", "host": "127.0.0.1"}
        invoked = api.invoke(event, deadline_in=invocation)
        await until(lambda: invoked.is_answered, "the end of the stream", seconds=invocation + PATIENCE)
    assert invoked.answer is not None
    assert invoked.answer.trailers == {}, "the stream was not cut"
    turn.take_lines(invoked.answer.body.decode().splitlines())
    first = len(turn.received)
    assert not turn.has_ended()
    figures = await played([turn])
    figures.extra.append(
        f"{time.monotonic() - began:.0f} s, {first} frames from the first invocation, "
        f"{len(turn.received) - first} after it, {len(turn.errors)} errors"
    )
    record_property("figures", f"stream of {4 * step / 60:.0f} min, invocation of {invocation:.0f} s: {figures.line()}")
    figures.check()
