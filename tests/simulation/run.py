"""Schedules: a seed determines the scenario and the faults; the result has the violations of the invariants."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from tests.simulation import call_scenarios as _registers_further_ones  # noqa: F401
from tests.simulation import faults
from tests.simulation import long_life as _registers_its_scenarios  # noqa: F401
from tests.simulation.facts import late_actions
from tests.simulation.faults import Aim, Fault, FaultPlan, applies
from tests.simulation.invariants import violations
from tests.simulation.scenarios import SCENARIOS, SimScenario
from tests.simulation.world import SimWorld


@dataclass(frozen=True)
class Outcome:
    """The result of a schedule."""

    seed: int
    scenario: str
    aims: Sequence[Aim]
    fired: Sequence[tuple[str, str]]
    """(fault, kind of side effect), in their order."""
    points: Sequence[str]
    """The kind of each side effect, in their order."""
    violations: Sequence[str]
    late: Collection[str]
    """Actions of agents after another process had taken over their turn."""
    lines: Sequence[str] = ()

    def __str__(self) -> str:
        told = [f"seed {self.seed}: {self.scenario}; " + "; ".join(map(str, self.aims))]
        return "\n  ".join([*told, *self.violations])


def play(
    scenario: SimScenario,
    seed: int,
    aims: Sequence[Aim] = (),
    *,
    clocks_stop: bool | None = None,
    tracing: bool = False,
) -> Outcome:
    """Play the scenario with these faults. The seed decides whether monotonic clocks stop, unless `clocks_stop` does."""
    plan = FaultPlan(aims)
    world = SimWorld(seed, plan, deployment=scenario.deployment, clocks_stop=clocks_stop, tracing=tracing)
    world.run(scenario.tell)
    return Outcome(
        seed,
        scenario.name,
        aims,
        [(fault, kind) for _, fault, kind, _ in world.history.faults],
        world.plan.points,
        violations(world),
        late_actions(world),
        world.lines,
    )


@cache
def clean(name: str) -> Sequence[Outcome]:
    """Play the scenario without faults, with each of three seeds."""
    return [play(SCENARIOS[name], seed) for seed in range(3)]


@cache
def _clean(name: str) -> dict[str, int]:
    """Return the greatest number of side effects of each kind in the runs without faults."""
    reached: dict[str, int] = {}
    for outcome in clean(name):
        for kind in sorted(set(outcome.points)):
            reached[kind] = max(reached.get(kind, 0), outcome.points.count(kind))
    return reached


def _reached(name: str) -> dict[str, int]:
    """Return how many side effects of each kind the scenario has; assume 2 for kinds that occur only after a fault."""
    return dict.fromkeys(AFTER_FAULTS, 2) | _clean(name)


AFTER_FAULTS = (
    "queue.receive",
    "queue.delete",
    "queue.send",
    "begin.transact",
    "claim.write",
    "append.get",
    "begin.get",
)


def scenario_of(random: Random, among: Collection[str]) -> SimScenario:
    """Draw a scenario."""
    scenarios = [SCENARIOS[name] for name in among]
    return random.choices(scenarios, [scenario.weight for scenario in scenarios])[0]


def schedule(seed: int, *, among: Collection[str] = tuple(SCENARIOS), tracing: bool = False) -> Outcome:
    """Play the schedule of a seed, with at least one fault."""
    random = Random(f"{seed} plan")
    scenario = scenario_of(random, among)
    aims = faults.draw(random, _reached(scenario.name))
    outcome = play(scenario, seed, aims, tracing=tracing)
    for _ in range(3):
        if outcome.fired:
            return outcome
        # If no planned fault has happened, play the schedule again with a fault at one of its side effects.
        kind = random.choice([kind for kind in outcome.points if not kind.endswith("overdue.query_index")])
        fault = random.choice([fault for fault in Fault if applies(fault, kind)])
        nth = random.randint(1, outcome.points.count(kind))
        aim = Aim(fault, kind, nth, faults.amount_of(fault, random))
        outcome = play(scenario, seed, [aim], tracing=tracing)
    return outcome


def crashes(scenario: SimScenario, seed: int, *, most: int | None = None) -> list[Outcome]:
    """Crash before and after every side effect of the scenario, one schedule for each.

    With `most`, only at the first `most` side effects of each kind, and by turns before and after it: little but the
    process's own code runs between the end of one and the beginning of the next.
    """
    kinds = play(scenario, seed).points
    both = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
    return [
        play(scenario, seed, [Aim(fault, "", number)])
        for number, kind in enumerate(kinds, start=1)
        for fault in (both if most is None else (both[number % 2],))
        if applies(fault, kind) and (most is None or kinds[: number - 1].count(kind) < most)
    ]


def pairs_of_crashes(scenario: SimScenario, seed: int, *, most: int = 600) -> list[Outcome]:
    """Crash at one side effect and at a later one, in a schedule for each pair; at most `most` random pairs."""
    points = play(scenario, seed).points
    random = Random(f"{seed} pairs")
    # Choose the second number from a larger range, because the first crash adds side effects to the schedule.
    pairs = [(one, two) for one in range(1, len(points) + 1) for two in range(one + 1, 2 * len(points))]
    chosen = pairs if len(pairs) <= most else random.sample(pairs, most)
    return [
        play(scenario, seed, [Aim(fault, "", number) for number in pair])
        for pair in chosen
        for fault in (random.choice((Fault.CRASH_BEFORE, Fault.CRASH_AFTER)),)
    ]


def aimed(fault: Fault, kind: str) -> Outcome | None:
    """Play a scenario with this fault at the first side effect of this kind; return None if no scenario reaches it.

    Until its first fault, a schedule equals the one without faults. The shortest schedule with this kind is played
    first.
    """
    there = [outcome for name in SCENARIOS for outcome in clean(name) if kind in outcome.points]
    for before in sorted(there, key=lambda outcome: len(outcome.points)):
        amount = faults.amount_of(fault, Random(f"{before.seed} amount"))
        outcome = play(SCENARIOS[before.scenario], before.seed, [Aim(fault, kind, 1, amount)])
        if (fault.value, kind) in outcome.fired:
            return outcome
    return None


def usual_kinds() -> set[str]:
    """Return the kinds of side effect in the scenarios without faults."""
    return {kind for name in SCENARIOS for kind in _clean(name)}
