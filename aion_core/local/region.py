"""Region of the local AWS, and the error of an emulator that cannot serve: known without importing moto."""

REGION = "us-east-1"


class EmulatorError(Exception):
    """The emulator cannot serve where it was told to."""
