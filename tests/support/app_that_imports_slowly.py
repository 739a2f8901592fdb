"""A module whose import takes until the test lets it go on."""

import asyncio

from tests.support.gates import gate

asyncio.run(gate("importing"))
