"""Ten thousand tasks that wait in `aion dev`, whose process is killed: its successor finds the cut turn, and loses none."""

import asyncio
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from aion_core.bootstrap.stores import QUEUES_FILE
from tests.support.e2e.agents.noting import STEPS, Note, read_notes
from tests.support.e2e.fleet import CONFIG, until
from tests.support.server import ServerProcess, aion_dev, serving
from tests.support.service import send

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]

WAITING = 10_000
LEASE_SECONDS = 30.0
SWEEP_SECONDS = 60.0
AT_ONCE = 8
"""Turns from the queue that run in parallel."""
TURN_SECONDS = 4.0
"""Length of each turn: the backlog lasts for more than an hour."""


async def send_all(server: ServerProcess, names: list[str], *, seconds: float, at_once: bool) -> None:
    """Send a message to a context of its own for each turn; with `at_once` the requests don't wait for the turn."""
    left = iter(names)

    async def each(client: httpx.AsyncClient) -> None:
        for name in left:
            body = send(f"{name} {seconds / 4}", message_id=f"m-{name}", contextId=f"c-{name}")
            body["params"]["configuration"] = {"returnImmediately": at_once}
            answer = (await client.post(f"{server.url}/agents/graph/", json=body)).json()
            assert "result" in answer, answer

    async with httpx.AsyncClient(timeout=600) as client:
        await asyncio.gather(*(each(client) for _ in range(16)))


def is_last(note: Note) -> bool:
    """Return True for the note at the end of a turn."""
    return (note.step, note.word) == (STEPS[-1], "end")


def messages(folder: Path) -> int:
    """Return the number of messages in the task queue, received ones included."""
    with closing(sqlite3.connect(folder / "store" / QUEUES_FILE)) as database:
        return int(database.execute("SELECT count(*) FROM messages WHERE queue = 'task'").fetchone()[0])


async def test_killed_turn_resumes_before_ten_thousand_waiting_ones(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Kill the worker of `aion dev` during the turn of a request, and let the next worker sweep for two minutes."""
    notes, folder = tmp_path / "notes", tmp_path / "data"
    environ = {
        "AION_CONFIG": str(CONFIG),
        "AION_DATA_DIR": str(folder),
        "AION_LEASE_SECONDS": str(LEASE_SECONDS),
        "AION_TURNS_AT_ONCE": str(AT_ONCE),
        "NOTED_IN": str(notes),
    }

    def cut() -> list[Note]:
        return [note for note in read_notes(notes) if note.turn == "cut"]

    def ended() -> int:
        return sum(is_last(note) for note in read_notes(notes))

    with serving(aion_dev(), **environ) as server:
        # More than WAITING, because turns end meanwhile.
        names = [f"waiting-{number}" for number in range(WAITING + 500)]
        await send_all(server, names, seconds=TURN_SECONDS, at_once=True)
        request = asyncio.create_task(send_all(server, ["cut"], seconds=80, at_once=False))
        (begun,) = await until(cut, "the request's turn ran")
        killed = time.monotonic()
        os.kill(begun.pid, signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await request
        before, worked = messages(folder), ended()
        await until(lambda: cut()[1:], "the cut turn resumed")
        resumed = cut()[1].at - killed
        await asyncio.sleep(2 * SWEEP_SECONDS)
        after, worked = messages(folder), ended() - worked
    log = "".join(server.printed)
    found = [int(count) for count in re.findall(r"the leases of (\d+) running turns", log)]
    figures = (
        f"{before} messages, the cut turn resumed {resumed:.1f} s after the kill, leases found {found}, two minutes "
    )
    record_property("figures", f"backlog of aion dev: {figures} later {worked} turns worked off, {after} messages")
    assert before >= WAITING
    assert resumed <= LEASE_SECONDS + SWEEP_SECONDS
    assert sum(found) <= AT_ONCE + 1, "the leases of the killed worker"
    assert not re.search(r"messages of \d+ waiting contexts were lost", log)
    # Each turn takes one message and sends one, which is due at the end of its lease. A killed turn has another of the sweep.
    assert after <= before + 2 * AT_ONCE + 1, "messages multiply"
