"""Simulation of the engine under faults: seeded schedules, with every invariant after each."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import run
from tests.simulation.coverage import COVERED
from tests.simulation.faults import Aim, Fault
from tests.simulation.kept import KEPT
from tests.simulation.run import Outcome, play, schedule
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.table import OPERATION, SimOperation

HERE = Path(__file__).parent
DEEP = bool(os.environ.get("SIMULATION_DEEP"))
SCHEDULES = int(os.environ.get("SIMULATION_SCHEDULES", 20_000 if DEEP else 100))
"""Number of schedules with random faults."""
PARTS = 20
MAIN = [name for name, scenario in SCENARIOS.items() if scenario.main]
OFTEN = {
    "send and go",
    "stream",
    "question and answer",
    "cancel",
    "double texting: enqueue",
    "calls a remote agent",
    "told of a task",
    "waits for a time",
    "readers elsewhere",
}
"""Scenarios in which `make test` crashes a process at each side effect; `make test-deep` does so in all of them."""


def first_seed() -> int:
    """Return the first seed of this run; it depends on the commit, so that each commit plays other schedules."""
    if "SIMULATION_SEED" in os.environ:
        return int(os.environ["SIMULATION_SEED"])
    named = subprocess.run(["git", "rev-parse", "--short=6", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return int(named.stdout or "0", 16) * 100_000


def judge(outcomes: list[Outcome]) -> None:
    """Count the outcomes for the coverage table; at a violation, fail with the command that replays its schedule."""
    for outcome in outcomes:
        COVERED.add(outcome)
    wrong = [outcome for outcome in outcomes if outcome.violations]
    told = "\n\n".join(f"make replay SEED={outcome.seed}\n{outcome}" for outcome in wrong[:5])
    assert not wrong, f"{len(wrong)} of {len(outcomes)} schedules are wrong\n\n{told}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_simulated_faults_violate_no_invariant(part: int) -> None:
    first = first_seed() + part * SCHEDULES // PARTS
    outcomes = [schedule(seed) for seed in range(first, first + SCHEDULES // PARTS)]
    judge(outcomes)
    assert all(outcome.fired for outcome in outcomes), "a schedule without a fault proves little"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.deep] * (name not in OFTEN)) for name in MAIN])
def test_invariants_hold_after_crash_at_each_side_effect(name: str) -> None:
    judge(run.crashes(SCENARIOS[name], 1, most=None if DEEP else 1))


@pytest.mark.timeout(3600)
@pytest.mark.deep
@pytest.mark.parametrize("name", MAIN)
def test_invariants_hold_after_two_crashes(name: str) -> None:
    judge(run.pairs_of_crashes(SCENARIOS[name], 2))


@pytest.mark.parametrize(
    ("moment", "late"),
    [("agent.step", {"refused"}), ("agent.checked", {"began", "effect"}), ("agent.within", {"effect"})],
)
def test_late_action_of_frozen_process_changes_no_record(moment: str, late: set[str]) -> None:
    """Freeze a process at a moment of its agent's code, until another process has finished the turn.

    It then begins no step, unless the freeze fell between the check of its lease and the step's first statement.
    """
    aims = [Aim(Fault.FROZEN_BEFORE, moment, number, 400.0) for number in (1, 2)]
    outcomes = [play(SCENARIOS["send and go"], seed, [aim]) for aim in aims for seed in range(3)]
    judge(outcomes)
    assert set().union(*(outcome.late for outcome in outcomes)) == late


def test_schedules_of_earlier_bugs_violate_no_invariant() -> None:
    judge([play(SCENARIOS[name], seed, aims, clocks_stop=False) for name, seed, aims in KEPT])


def test_scenarios_without_faults_violate_no_invariant() -> None:
    judge([outcome for name in SCENARIOS for outcome in run.clean(name)])


@pytest.mark.deep
def test_simulation_with_same_seed_replays_exactly() -> None:
    """Replay a schedule in this process, and in another one, where hashes and addresses differ."""
    program = (
        "import json; from tests.simulation.run import schedule; "
        "print(json.dumps({seed: schedule(seed, tracing=True).lines for seed in (3, 64, 128)}))"
    )
    hashes = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=HERE.parents[1],
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=True,
    )
    other = json.loads(ran.stdout)
    for seed, lines in other.items():
        assert lines == list(schedule(int(seed), tracing=True).lines), f"seed {seed} is told differently each time"
        assert len(lines) > 20


def test_crashed_processes_leave_no_open_coroutine() -> None:
    """The garbage collector could close an open coroutine during a later schedule, and so change that schedule."""
    gc.disable()
    try:
        for number in range(16, 30):
            play(SCENARIOS["large payloads"], 1, [Aim(Fault.CRASH_BEFORE, "", number)])
        token = OPERATION.set(SimOperation("another"))
        gc.collect()
        assert OPERATION.get().name == "another"
        OPERATION.reset(token)
    finally:
        gc.enable()


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_simulation_plays_each_fault_at_each_side_effect() -> None:
    """Play each applicable fault at each usual kind of side effect; `aimed` plays those that no schedule drew."""
    wanted = COVERED.undrawn(run.usual_kinds())
    judge([outcome for fault, kind in wanted if (outcome := run.aimed(Fault(fault), kind)) is not None])
    assert COVERED.undrawn(run.usual_kinds()) == []
