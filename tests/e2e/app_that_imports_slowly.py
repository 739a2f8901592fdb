"""Module with an import blocked until the test continues it."""

import asyncio

from tests.support.gates import gate

asyncio.run(gate("importing"))
