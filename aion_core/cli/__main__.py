"""Entry point of the `aion` command, also by `python -m aion_core.cli`."""

import sys


def main() -> None:
    """Run the command; exit 130 without a traceback if Ctrl-C interrupts the import of its modules."""
    try:
        from aion_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
