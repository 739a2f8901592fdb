"""Shared state of ADK sessions: the deletion of replaced blobs."""

import logging
import random

import pytest
from google.adk.events import Event, EventActions

from aion_core.errors import StoreUnavailable
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.state.adk.sessions import TableSessions
from tests.support.clock import ManualClock
from tests.support.stores import CIPHER, MemoryTaskStore


class LockedBlobs(MemoryBlobs):
    """Blobs that cannot be deleted, as in a bucket without the permission."""

    async def delete(self, name: str) -> None:
        raise StoreUnavailable("access denied")


async def test_failed_deletion_of_replaced_shared_state_is_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    blobs = LockedBlobs()
    service = TableSessions(MemoryTaskStore(clock).table, blobs, CIPHER, clock)
    large = random.Random(1).randbytes(40_000).hex()
    session = await service.create_session(app_name="app", user_id="user", state={"user:x": large})
    (replaced,) = await blobs.names("")
    small = Event(author="agent", actions=EventActions(state_delta={"user:x": "small"}))
    await service.append_event(session, small)
    [record] = caplog.records
    assert (record.levelno, record.__dict__["object"]) == (logging.WARNING, replaced)
    stored = await service.get_session(app_name="app", user_id="user", session_id=session.id)
    assert stored is not None
    assert stored.state["user:x"] == "small"
