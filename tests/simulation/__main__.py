"""Replays the schedule of a seed, with everything that happens in it: `make replay SEED=…`."""

import sys

from tests.simulation.run import schedule


def main() -> None:
    """Play it and print it."""
    outcome = schedule(int(sys.argv[1]), tracing=True)
    print(*outcome.lines, sep="\n")
    print()
    print(outcome)
    sys.exit(bool(outcome.violations))


main()
