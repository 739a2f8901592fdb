"""Faults of processes, queues and stores during turns: no event is lost or repeated, no finished step runs again.

The summary of the test run has the figures of each test.
"""

import asyncio
import itertools
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from random import Random

import httpx
import pytest

from tests.support.e2e.agents.noting import STEPS, Note, read_notes
from tests.support.e2e.fault_proxy import Rule, cancelled, delayed, lost, refused, repeated, reset, slow
from tests.support.e2e.fleet import (
    PATIENCE,
    RESUMING,
    Figures,
    Fleet,
    FleetTurn,
    a_turn_of_each,
    fleet,
    played,
    recovery,
    state_of,
    until,
)
from tests.support.receiver import WebhookReceiver, receiving

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet") / "notes", AION_MAX_TRIES="5") as started:
        yield started


async def report(
    record: Record,
    name: str,
    figures: Figures,
    receiver: WebhookReceiver | None = None,
    turns: Sequence[FleetTurn] = (),
) -> None:
    """Check the figures and, with a receiver, its notifications; add the figures to the test run's summary."""
    try:
        figures.check()
        if receiver is not None:
            await check_notified(receiver, turns, figures)
            figures.check()
    finally:
        record("figures", f"{name}: {figures.line()}")


FAULTS: dict[str, Callable[[], list[Rule]]] = {
    "no fault": list,
    "queue messages tripled": lambda: [Rule("sqs", repeated(3), ("SendMessage",))],
    "queue messages 20 s late": lambda: [Rule("sqs", delayed(20), ("SendMessage",))],
    "queue down for 20 calls": lambda: [Rule("sqs", refused(), times=20)],
    "bucket down for 40 calls": lambda: [Rule("s3", refused(503, "SlowDown"), times=40)],
    "transactions cancelled for mixed reasons": lambda: [
        Rule("dynamodb", cancelled(), ("TransactWriteItems",), every=3)
    ],
    "table throttled": lambda: [Rule("dynamodb", refused(400, "ThrottlingException"), every=6)],
    "answers of writes lost": lambda: [
        Rule("dynamodb", lost, ("TransactWriteItems", "PutItem", "UpdateItem"), every=5)
    ],
    "connections reset": lambda: [Rule(service, reset, every=7) for service in ("dynamodb", "sqs", "s3")],
    "answers of the table after 2 s": lambda: [Rule("dynamodb", slow(2.0))],
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_turns_complete_despite_injected_fault(processes: Fleet, record_property: Record, fault: str) -> None:
    """Run turns of each agent and kind of request, each with a webhook, while the fault is injected."""
    rules = FAULTS[fault]()
    large = 500_000 if "bucket" in fault else 0
    before = time.monotonic()
    async with receiving() as receiver:
        turns = a_turn_of_each(processes, fault.replace(" ", "-"), padding=large, hook=receiver.url())
        with processes.proxy.injecting(*rules):
            figures = await played(turns)
        injected = sum(rule.injected for rule in rules)
        figures.extra.append(f"{injected} faults injected, {time.monotonic() - before:.0f} s")
        await report(record_property, fault, figures, receiver, turns)
    assert injected or not rules, "the fault came"


def cut_steps(processes: Fleet, turns: list[FleetTurn], pids: Callable[[], list[int]]) -> list[Note]:
    """Return the steps that run in the process whose newest step began last."""
    running = processes.running_steps(turns, pids())
    return [note for note in running if note.pid == running[-1].pid]


def recoveries(processes: Fleet, cut: list[tuple[Note, float]]) -> list[float]:
    """Return, for each cut step, the seconds from the kill to the turn's next step in another process."""
    notes = read_notes(processes.notes)
    return [seconds for note, at in cut if (seconds := recovery(notes, note, at)) is not None]


async def check_notified(receiver: WebhookReceiver, turns: Sequence[FleetTurn], figures: Figures) -> None:
    """Wait for each task's last push notification; add lost and contradictory notifications to the figures."""
    await until(lambda: not unnotified(receiver, turns), "the last notification of each turn")
    bodies: dict[str, bytes] = {}
    first: dict[str, list[int]] = defaultdict(list)
    for post in receiver.posts:
        task_id, generation, _ = post.id.split("_")
        if post.id not in bodies:
            first[task_id].append(int(generation))
        if bodies.setdefault(post.id, post.body) != post.body:
            figures.doubled.append(f"{post.id}: two bodies")
    for turn in turns:
        # The webhook must receive every event of the task except the first.
        posted = first[turn.task_id]
        if posted != list(range(2, len(posted) + 2)):
            figures.lost.append(f"{turn.name}: posts of the events {posted}")
    figures.extra.append(f"{len(bodies)} notifications, {len(receiver.posts) - len(bodies)} of them posted again")


def unnotified(receiver: WebhookReceiver, turns: Sequence[FleetTurn]) -> set[str]:
    """Return the tasks whose webhook has not received the event "completed"."""
    completed = {post.id.split("_")[0] for post in receiver.posts if b"TASK_STATE_COMPLETED" in post.body}
    return {turn.task_id for turn in turns} - completed


async def test_turns_complete_despite_killed_processes(processes: Fleet, record_property: Record) -> None:
    """Kill two API processes and two workers during their turns, one after another."""
    for start in (processes.add_api, processes.add_worker) * 2:
        await asyncio.to_thread(start)
    cut: list[tuple[Note, float]] = []
    killed: list[int] = []
    async with receiving() as receiver:
        turns = a_turn_of_each(processes, "killed", rounds=2, hook=receiver.url(), seconds=3.0)

        async def kill() -> None:
            for pids in (processes.worker_pids, processes.api_pids) * 2:
                steps = await until(partial(cut_steps, processes, turns, pids), "a step ran")
                at = processes.send_signal(steps[0].pid, signal.SIGKILL)
                cut.extend((note, at) for note in steps)
                killed.append(steps[0].pid)

        figures = await played(turns, kill())
        figures.recoveries = recoveries(processes, cut)
        assert figures.recoveries, "another process continued a cut step"
        figures.extra.append(f"{len(killed)} processes killed, {len(cut)} steps cut")
        await report(record_property, "processes killed", figures, receiver, turns)


async def test_client_reads_task_that_ended_before_its_first_stream(processes: Fleet, record_property: Record) -> None:
    """Subscribe to a background task after its end, as through a process that is frozen meanwhile."""
    turns = [
        FleetTurn(processes, agent, "background", f"ended-{agent}", seconds=0.1) for agent in ("graph", "sequence")
    ]
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        for turn in turns:
            turn.task_id = (await turn.repeat(client, processes.apis[0].url))["task"]["id"]
            while not turn.has_ended():
                task = await turn.rpc(client, processes.apis[0].url, "GetTask", id=turn.task_id)
                turn.received = [("", {"task": task})]
            turn.received = []
    figures = await played(turns)
    assert [len(turn.errors) for turn in turns] == [1, 1], "the server refuses a stream of an ended task"
    await report(record_property, "ended before the stream", figures)


@pytest.mark.parametrize("kind", ["worker", "api"])
async def test_suspended_process_starts_no_step_after_another_took_its_turn(
    processes: Fleet, record_property: Record, kind: str
) -> None:
    """Suspend a process (SIGSTOP) until another process has taken over a turn; then continue it."""
    pids = processes.worker_pids if kind == "worker" else processes.api_pids
    await asyncio.to_thread(processes.add_worker if kind == "worker" else processes.add_api)
    turns = a_turn_of_each(processes, f"frozen-{kind}", seconds=3.0)
    cut: list[tuple[Note, float]] = []

    async def freeze() -> None:
        steps = await until(partial(cut_steps, processes, turns, pids), "a step ran")
        at = processes.send_signal(steps[0].pid, signal.SIGSTOP)
        cut.extend((note, at) for note in steps)
        try:
            await until(lambda: recoveries(processes, cut), "another process took over")
        finally:
            os.kill(steps[0].pid, signal.SIGCONT)

    figures = await played(turns, freeze())
    figures.recoveries = recoveries(processes, cut)
    assert figures.recoveries, "another process continued a cut step"
    taken = {note.turn: at + seconds for note, at in cut for seconds in recoveries(processes, [(note, at)])}
    late = [
        f"{note.turn}: {note.step} begun late"
        for note in read_notes(processes.notes)
        if note.pid == cut[0][0].pid and note.word == "begin" and note.at > taken.get(note.turn, note.at)
    ]
    figures.run_again += late
    figures.extra.append(f"{len(cut)} steps cut, {len(late)} steps begun late by the frozen process")
    os.kill(cut[0][0].pid, signal.SIGKILL)
    await report(record_property, f"{kind} process frozen", figures)


def is_last(note: Note) -> bool:
    """Return True for the note at the end of a turn."""
    return (note.step, note.word) == (STEPS[-1], "end")


FROZEN_TURNS = 20
"""Minimum number of turns of each agent that are frozen."""


async def test_thawed_processes_begin_no_step_of_ended_turns(processes: Fleet, record_property: Record) -> None:
    """Freeze busy processes at random moments, again and again, until enough turns of each agent were frozen."""
    frozen = Counter[str]()
    agents = (*RESUMING, "executor")
    for attempt in itertools.count(1):
        frozen += await frozen_together(processes, record_property, attempt, agents)
        if all(frozen[agent] >= FROZEN_TURNS for agent in agents):
            break
    record_property("figures", f"frozen together, in all: {dict(frozen)} turns, steps begun after the thaw: 0")


async def frozen_together(
    processes: Fleet, record_property: Record, attempt: int, agents: Sequence[str]
) -> "Counter[str]":
    """Freeze a busy API process and worker at a random moment, until others have ended every task; then thaw them.

    Return the number of frozen turns of each agent.
    """
    for add, pids in (processes.add_api, processes.api_pids), (processes.add_worker, processes.worker_pids):
        if len(pids()) < 2:
            await asyncio.to_thread(add)
    chance = Random()
    name = f"thawed-{attempt}-{chance.randrange(10**6)}"
    turns = a_turn_of_each(processes, name, rounds=2, agents=agents, seconds=0.8)
    names = {turn.name for turn in turns}
    frozen: dict[str, Note] = {}
    """Last note of each turn that is frozen, in a step or between two."""
    thawed_at = 0.0

    async def ended_elsewhere(victims: Container[int]) -> None:
        """Wait until all tasks have ended, as another API process says."""
        other = next(api.url for api in processes.apis if api.process.pid not in victims)
        waiting = list(turns)
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient(timeout=PATIENCE) as client:
            while waiting:
                found = await waiting[-1].rpc(client, other, "ListTasks", contextId=f"c-{waiting[-1].name}")
                if [state_of(task) for task in found["tasks"]] == ["TASK_STATE_COMPLETED"]:
                    waiting.pop()
                else:
                    await asyncio.sleep(0.2)

    async def freeze() -> None:
        nonlocal thawed_at
        await until(partial(processes.running_steps, turns, processes.worker_pids()), "a worker runs a step")
        await asyncio.sleep(chance.uniform(0, 2.5))
        running = processes.running_steps(turns, processes.api_pids() + processes.worker_pids())
        busy = {note.pid for note in running}
        victims = [
            chance.choice([pid for pid in pids() if pid in busy] or pids())
            for pids in (processes.api_pids, processes.worker_pids)
        ]
        for pid in victims:
            os.kill(pid, signal.SIGSTOP)
        try:
            last = {note.turn: note for note in read_notes(processes.notes) if note.turn in names}
            frozen.update({turn: note for turn, note in last.items() if note.pid in victims and not is_last(note)})
            await ended_elsewhere(victims)
        finally:
            thawed_at = time.monotonic()
            for pid in victims:
                os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(5)  # a thawed process begins a step now, if ever

    figures = await played(turns, freeze())
    late = [
        f"{note.turn}: {note.step} begun {note.at - thawed_at:.1f} s after the thaw"
        for note in read_notes(processes.notes)
        if note.turn in names and note.word == "begin" and note.at > thawed_at
    ]
    figures.run_again += late
    places = Counter(f"{turn.agent} {frozen[turn.name].word}" for turn in turns if turn.name in frozen)
    figures.extra.append(f"turns frozen after the note: {dict(places)}, steps begun after the thaw: {len(late)}")
    await report(record_property, f"frozen together, {attempt}", figures)
    return Counter(turn.agent for turn in turns if turn.name in frozen)
