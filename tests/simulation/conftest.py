"""Report of the simulated schedules: tables of the faults, written into files at the end of the test run."""

from tests.conftest import SIMULATED
from tests.simulation.coverage import COVERED

WHOLE = SIMULATED.with_name("simulation.txt")


def pytest_sessionfinish() -> None:
    """Write the table of scenario by side effect by fault into a file, and the two summary tables into another."""
    if COVERED.schedules:
        WHOLE.parent.mkdir(exist_ok=True)
        WHOLE.write_text("".join(f"{line}\n" for line in COVERED.whole()), encoding="utf-8")
        summary = [*COVERED.summary(), f"Scenario × fault × side effect, cell by cell: {WHOLE}"]
        SIMULATED.write_text("".join(f"{line}\n" for line in summary), encoding="utf-8")
