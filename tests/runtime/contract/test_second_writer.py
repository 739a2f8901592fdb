"""Two processes at once, a reader in the middle of a transaction, and a process that dies between two writes.

For each two operations of a store, the result is that of one after the other. The first process has read what it needs;
before each of its writes in turn, the second runs its whole operation. Both outcomes, and what a third process reads
afterwards, must be those of one of the two orders, or the first operation was refused without effect.
"""

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.runtime.contract.processes import (
    AGAIN,
    ERRORS,
    JOBS,
    READERS,
    REFUSED,
    SUBJECTS,
    Act,
    Process,
    Subject,
)
from tests.support.between_writes import BetweenWrites, Died
from tests.support.faulty_table import FaultyTable, TableFaults


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait before a second attempt."""
    monkeypatch.setattr("aion_core.table.retries.FIRST_WAIT_SECONDS", 0.0)


async def outcome_of(act: Act, process: Process) -> Any:
    try:
        return await act(process)
    except ERRORS as error:
        return type(error).__name__


async def alone(subject: Subject, *acts: str) -> tuple[dict[str, Any], Any]:
    """Let the acts happen one after the other, each in its process. Return their outcomes, and what is seen after them."""
    first = Process("before")
    await subject.given(first)
    outcomes = {name: await outcome_of(subject.act(name), Process(name, first)) for name in acts}
    return outcomes, await subject.seen(Process("after", first))


async def at_same_time(subject: Subject, mine: str, theirs: str, at: int) -> tuple[dict[str, Any], Any] | None:
    """Let `theirs` happen before write number `at` of `mine`; return None if there are not so many writes."""
    first, outcomes = Process("before"), dict[str, Any]()
    await subject.given(first)

    async def meanwhile() -> None:
        outcomes[theirs] = await outcome_of(subject.act(theirs), Process(theirs, first))

    outcomes[mine] = await outcome_of(subject.act(mine), Process(mine, first, BetweenWrites(at, meanwhile)))
    return (outcomes, await subject.seen(Process("after", first))) if theirs in outcomes else None


_orders: dict[tuple[str, ...], tuple[dict[str, Any], Any]] = {}
"""Results of acts one after the other, because each order is needed twice."""


async def in_order(subject: str, *acts: str) -> tuple[dict[str, Any], Any]:
    if (subject, *acts) not in _orders:
        _orders[subject, *acts] = await alone(SUBJECTS[subject], *acts)
    return _orders[subject, *acts]


SIMILAR = {"running turn before another", "running turn before a message", "forsaken turn", "expired context"}
"""Subjects whose acts meet those of another subject in a further state."""


@pytest.mark.parametrize(
    ("subject", "mine"),
    [
        pytest.param(subject, mine, id=f"{subject}: {mine}", marks=[pytest.mark.deep] * (subject in SIMILAR))
        for subject in SUBJECTS
        for mine in SUBJECTS[subject].acts
    ],
)
async def test_two_processes_act_as_one_after_the_other(subject: str, mine: str) -> None:
    of, wrong = SUBJECTS[subject], dict[str, Any]()
    for name in {**of.acts, **of.others}:
        theirs = name if name != mine else f"{name}{AGAIN}"
        orders = [await in_order(subject, mine, theirs), await in_order(subject, theirs, mine)]
        outcomes, seen = await in_order(subject, theirs)
        orders += [({**outcomes, mine: refused}, seen) for refused in REFUSED]
        at = 1
        while (found := await at_same_time(of, mine, theirs, at)) is not None:
            if found not in orders:
                wrong[f"{theirs} before write {at}"] = found, orders[:2]
            at += 1
    assert wrong == {}


# ── A reader in the middle of a transaction ───────────────────────────────────────────────────────────────────────────


class SlowAnswer:
    """Table of a reader: its first reads happen in the middle of another's transaction; the last one returns after it."""

    def __init__(self, table: FaultyTable, reads: int) -> None:
        self._table, self._left = table, reads
        self.has_read, self.goes_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)
        if name not in ("get", "query"):
            return method

        async def read(*given: Any, **options: Any) -> Any:
            answer = await method(*given, **options)
            self._left -= 1
            if not self._left:
                self.has_read.set()
                await self.goes_on.wait()
            return answer

        return read


class Partway(TableFaults):
    """After the given number of writes in transactions, a reader reads."""

    def __init__(self, after: int, read: Callable[[], Awaitable[None]]) -> None:
        self._left, self._read = after, read

    async def partway(self, _: Any) -> None:
        self._left -= 1
        if not self._left:
            await self._read()


async def in_the_middle(subject: Subject, act: Act, read: Act, after: int, reads: int) -> tuple[Any] | None:
    """Return what a reader finds whose first `reads` happen after this many writes of the act's transactions.

    Return None if there are not so many writes.
    """
    first = Process("before")
    await subject.given(first)
    table, found = first.stored[0], list[asyncio.Task[Any]]()
    slow = SlowAnswer(table, reads)

    async def meanwhile() -> None:
        reader = Process("reader", first)
        reader.table = slow
        found.append(asyncio.create_task(outcome_of(read, reader)))
        found[0].add_done_callback(lambda _: slow.has_read.set())
        await slow.has_read.wait()

    table.faults = Partway(after, meanwhile)
    await outcome_of(act, Process("mine", first))
    slow.goes_on.set()
    return (await found[0],) if found else None


@pytest.mark.parametrize(
    ("subject", "mine"),
    [pytest.param(subject, mine, id=f"{subject}: {mine}") for subject in READERS for mine in SUBJECTS[subject].acts],
)
async def test_reader_sees_transaction_as_a_whole(subject: str, mine: str) -> None:
    of, wrong = SUBJECTS[subject], dict[str, Any]()
    for name, read in READERS[subject].items():
        one = dataclasses.replace(of, seen=read)
        whole = [(await alone(one))[1], (await alone(one, mine))[1]]
        for reads in (1, 2):
            for after in itertools.count(1):
                found = await in_the_middle(of, of.acts[mine], read, after, reads)
                if found is None:
                    break
                if found[0] not in whole:
                    wrong[f"{name}, {reads} reads after {after} writes"] = found[0], whole
    assert wrong == {}


# ── A process that dies ───────────────────────────────────────────────────────────────────────────────────────────────


async def cut(subject: Subject, act: Act, at: int) -> tuple[Any, Process] | None:
    """Let the process die before write number `at` of its act. Return what is seen then; None if it makes fewer writes."""
    first = Process("before")
    await subject.given(first)

    async def dies() -> None:
        raise Died

    try:
        await outcome_of(act, Process("mine", first, BetweenWrites(at, dies)))
    except Died:
        return await outcome_of(subject.seen, Process("after", first)), first
    return None


@pytest.mark.parametrize("name", JOBS)
async def test_job_that_dies_leaves_nothing_half_done(
    name: str, monkeypatch: pytest.MonkeyPatch, small_steps: None
) -> None:
    """Die before each write: what is read then is as before or as after the job, and another attempt ends the job."""
    job, wrong = JOBS[name], dict[int, Any]()
    act = job.acts[name]
    _, before = await alone(job)
    _, after = await alone(job, name)
    writes = itertools.count(1)
    for at in writes:
        if (found := await cut(job, act, at)) is None:
            break
        seen, first = found
        await outcome_of(act, Process("again", first))
        ended = await outcome_of(job.seen, Process("after", first))
        if seen not in (before, after) or ended != after:
            wrong[at] = seen, ended
    assert wrong == {}, (before, after)
    assert at > 2, "the job has one step only"


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step of a job have one item."""
    for place in ("adk.sessions.ROWS_AT_ONCE", "adk.sessions.VALUES_AT_ONCE", "langgraph.checkpoints.DELETES_AT_ONCE"):
        monkeypatch.setattr(f"aion_core.state.{place}", 1)
