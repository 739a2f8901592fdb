"""Module with an import blocked until the test continues it."""

import asyncio

from tests.e2e.gates import gate

asyncio.run(gate("importing"))
