"""Prints what the simulation has tried."""

from pathlib import Path

import pytest

from tests.simulation.coverage import COVERED
from tests.support import telling

WHOLE = Path(__file__).parents[2] / ".cache" / "simulation.txt"

telling.TELLERS["simulated"] = lambda: (
    {"summary": list(COVERED.summary()), "whole": list(COVERED.whole())} if COVERED.schedules else None
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables, and leave the one of all three dimensions in a file."""
    for told in filter(None, telling.all_told("simulated")):
        terminalreporter.section("simulated")
        for line in told["summary"]:
            terminalreporter.line(line)
        WHOLE.parent.mkdir(exist_ok=True)
        WHOLE.write_text("".join(f"{line}\n" for line in told["whole"]), encoding="utf-8")
        terminalreporter.line(f"Scenario × fault × side effect, cell by cell: {WHOLE}")
