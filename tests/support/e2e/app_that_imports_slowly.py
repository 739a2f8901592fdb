"""App whose import lasts until the test opens the gate `importing`."""

import asyncio

from tests.support.e2e.gates import gate

asyncio.run(gate("importing"))
