"""Region of the local AWS, names of receivers, and an emulator's error: known without importing moto."""

import re

REGION = "us-east-1"

RECEIVER_PREFIX = "aion-receiver/"
"""Prefix in a client's User-Agent; the name of the receiving process follows."""
RECEIVER = re.compile(rf"\b{RECEIVER_PREFIX}(\w+)")


class EmulatorError(Exception):
    """The emulator cannot serve where it was told to."""
