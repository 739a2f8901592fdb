"""Coverage table: how often each fault hit each side effect in each scenario; an empty cell has a reason."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from string import ascii_letters

from tests.simulation.faults import WHY_NOT, Fault, applies
from tests.simulation.run import Outcome


class Coverage:
    """Counts of the faults that hit the schedules of a test run."""

    def __init__(self) -> None:
        self.schedules = self.violated = self.fired = 0
        self.cells: Counter[tuple[str, str, str]] = Counter()
        """(scenario, fault, kind of side effect)"""
        self.reached: Counter[tuple[str, str]] = Counter()
        """(scenario, kind): number of its side effects."""

    def add(self, outcome: Outcome) -> None:
        """Count a schedule."""
        self.schedules += 1
        self.violated += bool(outcome.violations)
        self.fired += len(outcome.fired)
        self.cells.update((outcome.scenario, fault, kind) for fault, kind in outcome.fired)
        self.reached.update((outcome.scenario, kind) for kind in outcome.points)

    def kinds(self) -> list[str]:
        """Return the kinds of side effect in the schedules."""
        return sorted({kind for _, kind in self.reached})

    def summary(self) -> Iterator[str]:
        """Yield two tables: side effects by faults over all scenarios, and scenarios by faults."""
        yield f"{self.schedules} schedules, {self.fired} faults, {self.violated} schedules with a violation"
        yield ""
        for letter, fault in zip(ascii_letters, Fault, strict=False):
            yield f"  {letter} = {fault.value}"
        scenarios = sorted({scenario for scenario, _ in self.reached})
        yield ""
        yield from self._table("side effect / fault", {kind: (kind, "") for kind in self.kinds()})
        yield ""
        yield from self._table("scenario / fault", {scenario: ("", scenario) for scenario in scenarios})
        yield ""
        yield "An empty cell (.): the fault has no meaning there, because"
        for fault, reason in WHY_NOT.items():
            yield f"  {fault.value:16} {reason}"

    def undrawn(self, kinds: Collection[str]) -> list[tuple[str, str]]:
        """Return the faults that apply to these kinds of side effect, but that no schedule of this run has drawn."""
        counts = self._counts()
        return [
            (fault.value, kind)
            for fault in Fault
            for kind in sorted(kinds)
            if applies(fault, kind) and not counts[fault.value, kind, ""]
        ]

    def whole(self) -> Iterator[str]:
        """Yield every cell of scenario by fault by side effect, with its count or the reason for its emptiness."""
        for scenario in sorted({scenario for scenario, _ in self.reached}):
            for fault in Fault:
                for kind in self.kinds():
                    count = self.cells[scenario, fault.value, kind]
                    if count:
                        yield f"{scenario} | {fault.value} | {kind} | {count}"
                    elif not applies(fault, kind):
                        yield f"{scenario} | {fault.value} | {kind} | - {WHY_NOT[fault]}"
                    elif not self.reached[scenario, kind]:
                        yield f"{scenario} | {fault.value} | {kind} | - the scenario never comes there"
                    else:
                        yield f"{scenario} | {fault.value} | {kind} | - not drawn this time"

    def _counts(self) -> Counter[tuple[str, str, str]]:
        """Count the faults by (fault, kind, "") and (fault, "", scenario)."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for (scenario, fault, kind), count in self.cells.items():
            counts[fault, kind, ""] += count
            counts[fault, "", scenario] += count
        return counts

    def _table(self, corner: str, rows: Mapping[str, tuple[str, str]]) -> Iterator[str]:
        counts = self._counts()
        yield f"{corner:28}" + "".join(f"{letter:>5}" for letter, _ in zip(ascii_letters, Fault, strict=False))
        for row, (kind, scenario) in rows.items():
            yield f"{row:28}" + "".join(f"{counts[fault.value, kind, scenario] or '.':>5}" for fault in Fault)


COVERED = Coverage()
"""The schedules of this test run."""
