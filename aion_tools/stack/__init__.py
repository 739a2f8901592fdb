"""Local AWS with the template's resources in an emulator, and with pollers that invoke the template's functions.

Importing this module does not import moto.
"""

import re

REGION = "us-east-1"

RECEIVER_PREFIX = "aion-receiver/"
"""Prefix in the User-Agent of an SQS client, followed by the name of the receiving process."""
RECEIVER = re.compile(rf"\b{RECEIVER_PREFIX}(\w+)")


class EmulatorError(Exception):
    """Error if the emulator cannot start or serve. The message states the reason."""
