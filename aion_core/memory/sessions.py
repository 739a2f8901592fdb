"""ADK's sessions in a dict, fenced like those on DynamoDB; they live as long as the process."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event

from aion_core.checkpointing.turn import Fence
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Clock
from aion_core.sessions.service import Revision, SessionKey, SessionRecord, StoredSessions, not_found, stale
from aion_core.sessions.state import Scoped
from aion_core.sessions.stored import event_bytes, event_of, mapping_of, value_bytes


@dataclass
class _Session:
    record: SessionRecord
    state: dict[str, Any]
    events: list[bytes] = field(default_factory=list)  # serialized, so that nobody shares an event with the store


@dataclass
class MemorySessionRecords:
    """What the session services of all turns share."""

    sessions: dict[SessionKey, _Session] = field(default_factory=dict)
    app_state: dict[str, dict[str, Any]] = field(default_factory=dict)
    user_state: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


class MemorySessions(StoredSessions):
    """ADK's session service for one turn, in one process.

    Every write may raise LeaseLost: another holder has the context then, and nothing was written.
    """

    def __init__(
        self, records: MemorySessionRecords, tasks: MemoryTaskStore, clock: Clock, *, fence: Fence | None = None
    ) -> None:
        """`tasks` knows the fence of each context. Without a fence, nobody is kept from writing."""
        super().__init__(clock)
        self._records, self._tasks, self._fence = records, tasks, fence

    async def _make(self, record: SessionRecord, state: Scoped) -> None:
        with self._fenced():
            if record.key in self._records.sessions:
                raise AlreadyExistsError(f"There is a session {record.key.session_id!r} already.")
            self._records.sessions[record.key] = _Session(record, _copy(record.state))
            self._share(record.key, state)

    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        session = self._records.sessions.get(key)
        if session is None:
            return None
        first = 0 if newest is None else max(len(session.events) - newest, 0)
        events = [event_of(event) for event in session.events[first:]]
        return replace(session.record, state=_copy(session.state), events=events)

    async def _shared(self, app_name: str, user_id: str) -> Scoped:
        return Scoped(
            app=_copy(self._records.app_state.get(app_name, {})),
            user=_copy(self._records.user_state.get((app_name, user_id), {})),
        )

    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        return [
            replace(session.record, state=_copy(session.state))
            for key, session in self._records.sessions.items()
            if key[:2] == (app_name, user_id)
        ]

    async def _delete(self, key: SessionKey) -> None:
        with self._fenced():
            self._records.sessions.pop(key, None)

    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: Scoped) -> Revision:
        packed = event_bytes(event)
        with self._fenced():
            session = self._records.sessions.get(key)
            if session is None:
                raise not_found(key)
            revision = Revision(known.number + 1, known.made)
            if session.record.revision == revision and event_of(session.events[-1]).id == event.id:
                return revision
            if session.record.revision != known:
                raise stale()
            session.events.append(packed)
            session.state |= _copy(delta.session)
            session.record = replace(session.record, revision=revision, updated=event.timestamp)
            self._share(key, delta)
            return revision

    def _share(self, key: SessionKey, state: Scoped) -> None:
        self._records.app_state.setdefault(key.app_name, {}).update(_copy(state.app))
        self._records.user_state.setdefault(key[:2], {}).update(_copy(state.user))

    def _fenced(self) -> AbstractContextManager[None]:
        if self._fence is None:
            return nullcontext()
        return self._tasks.fenced(self._fence.context, self._fence.number)


def _copy(state: Any) -> dict[str, Any]:
    """Return the state so that nobody shares a part of it with the store."""
    return mapping_of(value_bytes(state))
