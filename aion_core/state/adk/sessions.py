"""ADK's sessions over the table.

Each transaction of a session checks the fence (fencing token) of the CONTEXT:

    _make      put SESSION/HEAD and STATE                    creates the session
    _append    put SESSION/EVENT#n, update HEAD, put STATE   adds an event if HEAD is at n - 1
               put USER/STATE#…, APP/STATE#…                 stores the event's shared state, one item for each value
    _delete    delete HEAD and STATE, then the events        deletes the session before its events

HEAD holds the session's revision. It is small, since each append rewrites it. STATE is written only if the session's
own state changes.

HEAD expires one retention and a day after the last append or refused answer, so it outlives the task. The other items
expire one and a half retentions after their write, and are renewed every fifth of a retention, so each outlives HEAD.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions import Session
from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.state.adk.encrypted_items import EncryptedItems
from aion_core.state.adk.scoped_state import ScopedState
from aion_core.state.adk.serialization import event_bytes, event_of, mapping_of, value_bytes
from aion_core.state.adk.session_record import Revision, SessionKey, SessionRecord
from aion_core.state.adk.session_rows import LARGEST_PAGE, SessionRows, record_of, revision_of
from aion_core.state.adk.session_service import StoredSessions, not_found, stale
from aion_core.state.adk.shared_state import SharedState
from aion_core.state.ttl_renewal import renew
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.conditions import Absent, AtMost, Both, Either, Equals, Exists
from aion_core.table.item import SORT, Key, key_of
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import BY_AGENT, RETENTIONS, SESSIONS, TTL_ATTRIBUTE
from aion_core.table.stamp import stamp
from aion_core.table.ttl import Ttl
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write

VALUES_AT_ONCE = 80
"""Number of shared state values in one transaction. A transaction may have 100 items and 4 MB."""

ROWS_AT_ONCE = 50
"""Number of items to delete in one transaction. The items of a transaction may have at most 4 MB."""

ROW = RETENTIONS[SESSIONS]
"""Lifetime of a session's event and state items in retention periods. It is longer than that of the head item."""


class TableSessions(StoredSessions):
    """ADK's session service for one turn.

    Every method may raise StoreUnavailable. If another holder has the context, a write stores nothing and raises
    LeaseLost. Expired sessions are not returned.
    """

    def __init__(
        self,
        table: Table,
        blobs: Blobs,
        cipher: Cipher,
        clock: Clock,
        *,
        fence: Fence | None = None,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """Check the fence with each write. Without a fence, only the session's revision detects other writers.

        A session expires as a whole, some time after its task. The state of users and apps does not expire.
        """
        super().__init__(clock)
        self._reads, self._ttl = Reads(table, clock), Ttl(clock, retention)
        self._rows = SessionRows(self._reads)
        self._blobs, self._items = blobs, EncryptedItems(blobs, cipher)
        self._shared_state = SharedState(self._reads, self._items, blobs)
        self._writes = FencedWrites(table, fence)
        self._in_turn = fence is not None
        self._states: dict[str, tuple[Revision, dict[str, Any]]] = {}
        """Cache of each session's own state, used by an append instead of a read."""
        self._renewed: dict[str, int] = {}
        """Times of this turn's renewals by session. The next append writes the time to the session's head."""

    async def _make(self, record: SessionRecord, state: ScopedState) -> None:
        thread = _thread(record.key)
        changes: list[Write] = [self._new_head(record, thread)]
        if record.state:
            changes.append(await self._put_state(record.key, record.revision, record.state))
        try:
            await self._commit(record.key, state, *changes)
        except WriteRefused:
            there = await self._reads.get(keys.session_head_key(thread))
            # Accept this call's own session: an earlier attempt may have created it, but its response was lost.
            if there is None or revision_of(there).made != record.revision.made:
                raise AlreadyExistsError(f"The session {record.key.session_id!r} exists already.") from None
        self._states[thread] = record.revision, dict(record.state)

    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: ScopedState) -> Revision:
        thread, revision = _thread(key), Revision(known.number + 1, known.made)
        state = await self._state(thread, known)
        if state is None:
            return await self._appended_already(key, revision, event)
        changes = [
            self._move_head(thread, known, event, state_changes=bool(delta.session)),
            await self._put(keys.session_event_key(thread, revision.number), event_bytes(event), key),
        ]
        if delta.session:
            state = {**state, **delta.session}
            changes.append(await self._put_state(key, revision, state))
        try:
            await self._commit(key, delta, *changes)
        except WriteRefused:
            await self._appended_already(key, revision, event)
        self._states[thread] = revision, state
        return revision

    async def _appended_already(self, key: SessionKey, revision: Revision, event: Event) -> Revision:
        """Return the new revision if an earlier attempt has stored this event. Otherwise raise StaleSessionError."""
        thread = _thread(key)
        head = await self._reads.get(keys.session_head_key(thread))
        if head is None:
            raise not_found(key)
        if revision_of(head) == revision:
            row = await self._reads.get(keys.session_event_key(thread, revision.number))
            if row is not None and event_of(await self._items.content(row)).id == event.id:
                return revision
        raise stale()

    async def _delete(self, key: SessionKey) -> None:
        thread = _thread(key)
        # Delete the head first. If the deletion is interrupted, the session is gone and its remaining items expire.
        await self._writes.commit(Delete(keys.session_head_key(thread)), Delete(keys.session_state_key(thread)))
        pages = self._rows.pages(thread, keys.event_sort(0), keys.HEAD, limit=LARGEST_PAGE, keys_only=True)
        found = [Delete(key_of(item)) async for page in pages for item in page]
        is_deleted = ConditionCheck(keys.session_head_key(thread), Absent())
        # A refusal means that the session was created again: its events may have the keys of the old ones.
        with suppress(WriteRefused):
            for start in range(0, len(found), ROWS_AT_ONCE):
                await self._writes.commit(is_deleted, *found[start : start + ROWS_AT_ONCE])
        self._states.pop(thread, None)

    async def _commit(self, key: SessionKey, shared: ScopedState, *changes: Write) -> None:
        """Write the session's changes and shared state in one transaction. Write surplus shared values first."""
        change = await self._shared_state.change(key, shared)
        values = change.writes
        while len(values) > VALUES_AT_ONCE:
            await self._writes.commit(*values[:VALUES_AT_ONCE])
            values = values[VALUES_AT_ONCE:]
        await self._writes.commit_step(*changes, *values)
        await self._shared_state.committed(change)

    def _new_head(self, record: SessionRecord, thread: str) -> Put:
        key, revision, now = record.key, record.revision, self._ttl.now()
        item = {
            **stamp(key.user_id, self._ttl.state_end()),
            "app_name": key.app_name,
            "user_id": key.user_id,
            "session_id": key.session_id,
            "made": revision.made,
            "revision": revision.number,
            "state_revision": revision.number if record.state else -1,
            "updated": repr(record.updated),
            "renewed": now,
            BY_AGENT.partition: keys.listing_sessions(key.user_id, key.app_name),
            BY_AGENT.sort: keys.listing_at(int(record.updated * 1000), thread),
        }
        # Allow a new session to replace an expired session, because DynamoDB deletes expired items late.
        return Put(keys.session_head_key(thread), item, only_if=Either((Absent(), AtMost(TTL_ATTRIBUTE, now))))

    def _move_head(self, thread: str, known: Revision, event: Event, *, state_changes: bool) -> Update:
        """Return the update of a session's head for one more event. It fails if the session has another revision."""
        values: dict[str, Any] = {
            "revision": known.number + 1,
            "updated": repr(event.timestamp),
            TTL_ATTRIBUTE: self._ttl.state_end(),
        }
        if state_changes:
            values["state_revision"] = known.number + 1
        if thread in self._renewed:
            values["renewed"] = self._renewed[thread]
        is_as_read = Both((Equals("made", known.made), Equals("revision", known.number)))
        return Update(keys.session_head_key(thread), Change(values, only_if=is_as_read))

    async def _put_state(self, session: SessionKey, revision: Revision, state: dict[str, Any]) -> Write:
        at: dict[str, Any] = {"made": revision.made, "revision": revision.number}
        return await self._put(keys.session_state_key(_thread(session)), value_bytes(state), session, **at)

    async def _put(self, key: Key, content: bytes, session: SessionKey, **attributes: str | int) -> Write:
        folder = f"{keys.owner_folder(SESSIONS, session.user_id)}/{_thread(session)}"
        encrypted = await self._items.encrypted(key, content, folder=folder)
        return Put(key, {**stamp(session.user_id, self._ttl.end(ROW)), **attributes, **encrypted})

    async def renew(self, session: Session) -> None:
        """Renew the session's TTL without an append, if the session still exists."""
        head = keys.session_head_key(_thread(SessionKey(session.app_name, session.user_id, session.id)))
        with suppress(WriteRefused):
            await self._writes.commit(Update(head, Change({TTL_ATTRIBUTE: self._ttl.state_end()}, only_if=Exists())))

    async def _renew(self, thread: str) -> None:
        """Renew the TTLs of a session's older items and their blobs. They must not expire before the head."""
        pages = self._rows.pages(thread, keys.event_sort(0), keys.SESSION_STATE)
        soon = self._ttl.end(1.35)
        rows = [row async for page in pages for row in page if row[SORT] != keys.HEAD and row[TTL_ATTRIBUTE] < soon]
        if await renew(self._writes, self._blobs, rows, self._ttl.end(ROW)):
            self._renewed[thread] = self._ttl.now()

    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        return await self._read_thread(_thread(key), newest=newest)

    async def _read_thread(self, thread: str, *, newest: int | None) -> SessionRecord | None:
        found = await self._rows.of_session(thread, newest=newest)
        if found is None:
            return None
        if self._in_turn and found.head["renewed"] <= self._ttl.end(-0.2):
            await self._renew(thread)
        record = record_of(found.head)
        state = mapping_of(await self._items.content(found.state)) if found.state is not None else {}
        self._states[thread] = record.revision, state
        contents = await self._items.contents(found.events)
        return replace(record, state=dict(state), events=[event_of(content) for content in contents])

    async def _state(self, thread: str, known: Revision) -> dict[str, Any] | None:
        """Return the session's own state at this revision, or None if the session's revision is another."""
        if thread not in self._states or self._states[thread][0] != known:
            record = await self._read_thread(thread, newest=0)
            if record is None or record.revision != known:
                return None
        return self._states[thread][1]

    async def _shared(self, app_name: str, user_id: str) -> ScopedState:
        return await self._shared_state.of(app_name, user_id)

    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        # Read each listed session from the table, because the index may be outdated.
        entries = self._reads.all_of_index(BY_AGENT, keys.listing_sessions(user_id, app_name))
        threads = [keys.listed(entry[BY_AGENT.sort]).task_id async for entry in entries]
        records = await asyncio.gather(*(self._read_thread(thread, newest=0) for thread in threads))
        return [record for record in records if record is not None]


def _thread(key: SessionKey) -> str:
    return keys.session_thread(key.user_id, key.app_name, key.session_id)
