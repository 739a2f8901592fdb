"""Summary of the simulated schedules, in files named or printed at the end of the run."""

from tests.conftest import SIMULATED
from tests.simulation.coverage import COVERED

WHOLE = SIMULATED.with_name("simulation.txt")


def pytest_sessionfinish() -> None:
    """Write the tables by scenario and by side effect, and the table of all three dimensions."""
    if COVERED.schedules:
        WHOLE.parent.mkdir(exist_ok=True)
        WHOLE.write_text("".join(f"{line}\n" for line in COVERED.whole()), encoding="utf-8")
        summary = [*COVERED.summary(), f"Scenario × fault × side effect, cell by cell: {WHOLE}"]
        SIMULATED.write_text("".join(f"{line}\n" for line in summary), encoding="utf-8")
