"""Entry point of the `aion` command and of `python -m aion_tools.cli`."""

import sys


def main() -> None:
    """Run the `aion` command. On Ctrl-C during the import of its modules, exit without a traceback.

    The exit code is then 130, but 0 for `aion dev`, because Ctrl-C is the usual way to end it.
    """
    try:
        from aion_tools.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(0 if sys.argv[1:2] == ["dev"] else 130)


if __name__ == "__main__":
    main()
