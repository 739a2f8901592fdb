"""Local AWS: the template's resources in an emulator, and pollers that invoke its functions.

The names in this module are available without importing moto.
"""

import re

REGION = "us-east-1"

RECEIVER_PREFIX = "aion-receiver/"
"""Prefix in a client's User-Agent, followed by the name of the receiving process."""
RECEIVER = re.compile(rf"\b{RECEIVER_PREFIX}(\w+)")


class EmulatorError(Exception):
    """The emulator cannot serve."""
