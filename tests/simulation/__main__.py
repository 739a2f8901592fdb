"""Replay of the simulated schedule of a seed, with a trace of its events: `make replay SEED=…`."""

import sys

from tests.simulation.run import schedule


def main() -> None:
    """Play the schedule and print it."""
    outcome = schedule(int(sys.argv[1]), tracing=True)
    print(*outcome.lines, sep="\n")
    print()
    print(outcome)
    sys.exit(bool(outcome.violations))


main()
