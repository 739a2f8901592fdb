"""Entry point of the `aion` command and of `python -m aion_core.cli`."""

import sys


def main() -> None:
    """Run the `aion` command. On Ctrl-C during the import of its modules, exit with code 130, without a traceback."""
    try:
        from aion_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
