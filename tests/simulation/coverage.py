"""Which faults befell which side effects in which scenarios, as a table; an empty cell has its reason."""

from collections import Counter
from collections.abc import Iterator
from string import ascii_letters

from tests.simulation.faults import APPLIES, KINDS, WHY_NOT, Fault
from tests.simulation.run import Outcome


class Coverage:
    """Counts what the schedules of a test run have tried."""

    def __init__(self) -> None:
        self.schedules = self.violated = self.fired = 0
        self.cells: Counter[tuple[str, str, str]] = Counter()
        """(scenario, fault, kind of side effect)"""
        self.reached: Counter[tuple[str, str]] = Counter()
        """(scenario, kind): how often its schedules came there."""

    def add(self, outcome: Outcome) -> None:
        """Count a schedule."""
        self.schedules += 1
        self.violated += bool(outcome.violations)
        self.fired += len(outcome.fired)
        self.cells.update((outcome.scenario, fault, kind) for fault, kind in outcome.fired)
        self.reached.update((outcome.scenario, kind) for kind in outcome.points)

    def summary(self) -> Iterator[str]:
        """Yield the table of faults and kinds of side effects over all scenarios, and of faults and scenarios."""
        yield f"{self.schedules} schedules, {self.fired} faults, {self.violated} schedules with a violation"
        kinds = [kind for kind in KINDS if any(kind == reached for _, reached in self.reached)]
        scenarios = sorted({scenario for scenario, _ in self.reached})
        yield ""
        yield from self._table("fault / side effect", kinds, lambda fault, kind: self._count(fault=fault, kind=kind))
        yield ""
        yield from self._table(
            "fault / scenario", scenarios, lambda fault, scenario: self._count(fault=fault, scenario=scenario)
        )
        yield ""
        yield "An empty cell (.): the fault means nothing there, because"
        for fault in Fault:
            if fault in WHY_NOT:
                yield f"  {fault.value:16} {WHY_NOT[fault]}"
        never = [kind for kind in KINDS if kind not in kinds]
        if never:
            yield f"No scenario comes to {', '.join(never)}."

    def undrawn(self) -> list[tuple[str, str]]:
        """The cells that are empty and should not be: the fault has a meaning there, and some scenario came there."""
        return [
            (fault.value, kind)
            for fault in Fault
            for kind in APPLIES[fault]
            if any(kind == reached for _, reached in self.reached) and not self._count(fault=fault.value, kind=kind)
        ]

    def whole(self) -> Iterator[str]:
        """Yield every cell of scenario by fault by side effect, with its count or the reason why it is empty."""
        for scenario in sorted({scenario for scenario, _ in self.reached}):
            for fault in Fault:
                for kind in KINDS:
                    count = self.cells[scenario, fault.value, kind]
                    if count:
                        yield f"{scenario} | {fault.value} | {kind} | {count}"
                    elif kind not in APPLIES[fault]:
                        yield f"{scenario} | {fault.value} | {kind} | - {WHY_NOT.get(fault, 'it means nothing there')}"
                    elif not self.reached[scenario, kind]:
                        yield f"{scenario} | {fault.value} | {kind} | - the scenario never comes there"
                    else:
                        yield f"{scenario} | {fault.value} | {kind} | - not drawn this time"

    def _count(self, *, fault: str, kind: str = "", scenario: str = "") -> int:
        return sum(
            count
            for (of, what, where), count in self.cells.items()
            if what == fault and (not kind or where == kind) and (not scenario or of == scenario)
        )

    def _table(self, corner: str, columns: list[str], count: object) -> Iterator[str]:
        for number, column in enumerate(columns):
            yield f"  {ascii_letters[number]} = {column}"
        yield f"{corner:20}" + "".join(f"{letter:>5}" for letter in ascii_letters[: len(columns)])
        for fault in Fault:
            cells = [count(fault.value, column) for column in columns]  # type: ignore[operator]
            yield f"{fault.value:20}" + "".join(f"{cell or '.':>5}" for cell in cells)


COVERED = Coverage()
"""What this test run has tried."""
