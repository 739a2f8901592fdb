"""Prints what the simulation has tried."""

from pathlib import Path

import pytest

from tests.simulation.coverage import COVERED

WHOLE = Path(__file__).parents[2] / ".cache" / "simulation.txt"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables, and leave the one of all three dimensions in a file."""
    if COVERED.schedules:
        terminalreporter.section("simulated")
        for line in COVERED.summary():
            terminalreporter.line(line)
        WHOLE.parent.mkdir(exist_ok=True)
        WHOLE.write_text("".join(f"{line}\n" for line in COVERED.whole()), encoding="utf-8")
        terminalreporter.line(f"Scenario × fault × side effect, cell by cell: {WHOLE}")
