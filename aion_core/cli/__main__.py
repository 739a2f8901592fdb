"""`python -m aion_core.cli`, for where no script is on the path."""

from aion_core.cli.start import main

main()
