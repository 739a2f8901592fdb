"""Entry point of the `aion` command and of `python -m aion_core.cli`."""

import sys


def main() -> None:
    """Run the `aion` command. If Ctrl-C interrupts the import of its modules, exit with code 130 and no traceback."""
    try:
        from aion_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
