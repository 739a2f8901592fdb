"""Recovery time of turns whose processes are killed, with the sweep interval of a deployment.

The summary of the test run has the recovery times, their parts, and the load of the machine.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from aion_core.auth.principal import ANONYMOUS
from aion_core.table import keys
from aion_core.table.keys import ContextKey
from tests.support.e2e.agents.noting import Note, read_notes
from tests.support.e2e.fleet import (
    LEASE_SECONDS,
    Fleet,
    FleetTurn,
    a_turn_of_each,
    fleet,
    played,
    quantile,
    recovery,
    until,
)

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]
SWEEP_SECONDS = 60.0
STEP_SECONDS = 25.0
KILLED_TURNS = 40
"""Minimum number of turns whose process is killed in the middle of a step."""


@dataclass
class CutTurn:
    """Step that was running when its process was killed. Times are monotonic, in seconds."""

    note: Note
    killed: float
    lease_ended: float
    begun: float = 0.0
    """Start of the next lease; 0.0 until it starts."""

    def parts(self, notes: Sequence[Note]) -> tuple[float, float, float]:
        """Return three durations: kill to end of lease, end of lease to next lease, next lease to next step."""
        took = recovery(notes, self.note, self.killed)
        assert took is not None, self.note
        return self.lease_ended - self.killed, self.begun - self.lease_ended, self.killed + took - self.begun


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet") / "notes", sweep_seconds=SWEEP_SECONDS, AION_MAX_TRIES="10") as started:
        started.add_api()
        started.add_worker()
        yield started


def end_of_lease(turn: FleetTurn) -> float:
    """Read the turn's lease from the table; return the monotonic time of its end."""
    stack, key = turn.fleet.stack, keys.context_key(ContextKey(ANONYMOUS, turn.agent, f"c-{turn.name}"))
    item = stack.client("dynamodb").get_item(
        TableName=stack.environment("ApiFunction")["AION_TABLE"],
        Key={"pk": {"S": key.partition}, "sk": {"S": key.sort}},
        ConsistentRead=True,
    )["Item"]
    return float(item["until"]["N"]) / 1000 - time.time() + time.monotonic()


async def test_killed_turns_resume_soon_after_lease_expiry(
    processes: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """Kill processes at random times during parallel turns, and start a new process for each."""
    random, loads, killed = Random(7), [os.getloadavg()[0]], list[int]()
    turns = a_turn_of_each(processes, "recovered", rounds=5, seconds=STEP_SECONDS)
    by_name = {turn.name: turn for turn in turns}
    cut: list[CutTurn] = []
    watching: list[asyncio.Task[None]] = []

    async def watch(one: CutTurn) -> None:
        """Compute the start of the next lease from its end, before the lease is renewed."""
        await until(lambda: recovery(read_notes(processes.notes), one.note, one.killed), f"{one.note} resumed")
        one.begun = await asyncio.to_thread(end_of_lease, by_name[one.note.turn]) - LEASE_SECONDS

    async def kill() -> None:
        while len(cut) < KILLED_TURNS and not all(turn.has_ended() for turn in turns):
            # Kill at a random time of the lease.
            await asyncio.sleep(random.uniform(0.0, LEASE_SECONDS))
            pids = [*processes.worker_pids(), *processes.api_pids()]
            running = sorted({note.pid for note in processes.running_steps(turns, pids)})
            if not running:
                continue
            pid = random.choice(running)
            is_api = pid in processes.api_pids()
            at = processes.send_signal(pid, signal.SIGKILL)
            killed.append(pid)
            for note in processes.running_steps(turns, [pid]):
                cut.append(CutTurn(note, at, await asyncio.to_thread(end_of_lease, by_name[note.turn])))
                watching.append(asyncio.create_task(watch(cut[-1])))
            loads.append(os.getloadavg()[0])
            await asyncio.to_thread(processes.add_api if is_api else processes.add_worker)
            # Wait until the turns of the killed process are running again, because a second kill could lose their
            # wake-up messages.
            await asyncio.gather(*watching)

    figures = await played(turns, kill())
    notes = read_notes(processes.notes)
    parts = [one.parts(notes) for one in cut]
    figures.recoveries = [sum(seconds) for seconds in parts]
    for name, values in zip(("end of lease", "next lease", "next step"), zip(*parts, strict=True), strict=True):
        figures.extra.append(f"{name} p50 {quantile(values, 0.5):.1f} s, p95 {quantile(values, 0.95):.1f} s")
    figures.extra.append(f"{len(killed)} processes killed, load {min(loads):.1f} to {max(loads):.1f}")
    try:
        assert len(figures.recoveries) >= KILLED_TURNS
        figures.check()
    finally:
        record_property("figures", f"recovery: {figures.line()}")
