"""Planted bugs: the simulation finds each bug, and the bug's own invariant reports it."""

from collections.abc import Iterator

import pytest

from tests.simulation import run
from tests.simulation.bugs import BUGS
from tests.simulation.planting import Bug, plant
from tests.simulation.run import Outcome, play
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.store_bugs import STORE_BUGS

MOST_SEEDS = 400
"""Maximum number of schedules to find a bug in its scenarios; most need only a few."""


def test_planted_bugs_can_be_applied_to_current_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply each edit without playing schedules: `make test` then notices a source change that makes a bug outdated."""
    for planted in (*BUGS, *STORE_BUGS):
        with monkeypatch.context() as patch:
            for edit in planted.edits:
                plant(edit, patch)


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("planted", [*BUGS, *STORE_BUGS], ids=lambda planted: planted.what)
def test_simulation_finds_planted_bug(planted: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    for edit in planted.edits:
        plant(edit, monkeypatch)
    tried = []
    for outcome in schedules(planted):
        tried.append(outcome)
        named = {violation.split(":")[0] for violation in outcome.violations}
        if named & planted.seen_by:
            return
    others = [str(outcome) for outcome in tried if outcome.violations]
    pytest.fail(f"{len(tried)} schedules did not show it; what they showed: {others[:3]}")


def schedules(planted: Bug) -> Iterator[Outcome]:
    """Play schedules that may expose the bug: first without faults, then with some."""
    scenarios = planted.scenarios or tuple(name for name, scenario in SCENARIOS.items() if scenario.main)
    for name in scenarios:
        for seed in range(max(4, 40 // len(scenarios))):
            yield play(SCENARIOS[name], seed)
    for aim in planted.aims:
        for seed in range(8):
            yield play(SCENARIOS[scenarios[0]], seed, [aim])
    for seed in range(6 if planted.together else 0):
        yield play(SCENARIOS[scenarios[0]], seed, planted.together)
    for seed in range(MOST_SEEDS):
        yield run.schedule(seed, among=scenarios)
