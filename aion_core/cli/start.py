"""The entry point of the `aion` command: Ctrl-C ends it without a traceback while its modules are imported, too."""

import sys


def main() -> None:
    """Run the command; exits 130 where Ctrl-C comes before it hears that itself."""
    try:
        from aion_core.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
