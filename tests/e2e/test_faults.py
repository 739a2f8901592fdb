"""Faults of processes, queues and stores during turns of both frameworks: nothing is lost, doubled or run again.

Every test prints its figures in the summary of the run.
"""

import asyncio
import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.fault_proxy import Rule, cancelled, delayed, lost, refused, repeated, reset, slow
from tests.e2e.fleet import Figures, Fleet, Turn, a_turn_of_each, fleet, played, recovery, until
from tests.support.agents.noting import read_notes
from tests.support.receiver import WebhookReceiver, receiving

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet") / "notes", AION_MAX_TRIES="5") as started:
        yield started


def report(record: Record, name: str, figures: Figures) -> None:
    record("figures", f"{name}: {figures.line()}")
    figures.check()


FAULTS: dict[str, Callable[[], list[Rule]]] = {
    "no fault": list,
    "queue messages tripled": lambda: [Rule("sqs", repeated(3), ("SendMessage",))],
    "queue messages 20 s late": lambda: [Rule("sqs", delayed(20), ("SendMessage",))],
    "queue down for 40 calls": lambda: [Rule("sqs", refused(), times=40)],
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
async def test_turns_survive_fault(processes: Fleet, record_property: Record, fault: str) -> None:
    """Play turns of each kind while the fault lasts."""
    rules = FAULTS[fault]()
    large = 500_000 if "bucket" in fault else 0
    turns = a_turn_of_each(processes, fault.replace(" ", "_"), padding=large)
    before = time.monotonic()
    with processes.proxy.injecting(*rules):
        figures = await played(turns)
    injected = sum(rule.injected for rule in rules)
    figures.extra = f"{injected} faults injected, {time.monotonic() - before:.0f} s"
    report(record_property, fault, figures)
    assert injected or not rules, "the fault came"
