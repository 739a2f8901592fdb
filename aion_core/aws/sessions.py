"""ADK's sessions on DynamoDB.

A session's time line, a line a transaction; each first checks that the CONTEXT's fence is still the holder's:

    _make      put SESSION/HEAD and STATE                  it is there
    _append    put SESSION/EVENT#n, move HEAD, put STATE   one more event, where HEAD is at n - 1
               put USER/STATE#…, APP/STATE#…               what it changes of the shared state, a value an item
    _delete    delete HEAD and STATE, then the events      it is not there, then its events are gone

HEAD is small, since each append rewrites it; STATE is written when the session's own state changes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event

from aion_core.aws import items, keys, writes
from aion_core.aws.client import Calls, Refused
from aion_core.aws.items import Item
from aion_core.aws.session_items import SessionItems, record_of, revision_of
from aion_core.aws.session_rows import SessionRows
from aion_core.aws.shared_state import SharedState
from aion_core.aws.table import Table
from aion_core.aws.writes import FIRST_TIME_IN_ITS_LIFE, Write
from aion_core.checkpointing.turn import Fence
from aion_core.ports import Blobs, Cipher, Clock
from aion_core.ports.schema import BY_AGENT, SESSIONS
from aion_core.sessions.service import Revision, SessionKey, SessionRecord, StoredSessions, not_found, stale
from aion_core.sessions.state import Scoped
from aion_core.sessions.stored import event_bytes, event_of, mapping_of, value_bytes

SESSION_IS_AS_READ = "made = :made AND revision = :known"

VALUES_AT_ONCE = 80
"""How many values of shared state go into one transaction: it may hold 100 items, and 4 MB."""


class DynamoDBSessions(StoredSessions):
    """ADK's session service for one turn, in one table.

    Every method may raise StoreUnavailable, and every write LeaseLost: another holder has the context then, and
    nothing was written. A session that has expired is not there.
    """

    def __init__(
        self,
        dynamodb: Calls,
        blobs: Blobs,
        cipher: Cipher,
        clock: Clock,
        *,
        table: str,
        fence: Fence | None = None,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """Without a fence, which is outside of a turn, nobody is kept from writing but by the session's revision.

        A session is kept for `retention` after its last event, whole; a user's and an app's state for ever.
        """
        super().__init__(clock)
        self._dynamodb, self._table = dynamodb, table
        self._reads = Table(dynamodb, clock, name=table)
        self._items = SessionItems(blobs, cipher, clock, retention=retention)
        self._rows = SessionRows(dynamodb, self._reads, self._items, table=table, fence=fence)
        self._shared_state = SharedState(self._reads, self._items, blobs, table=table)
        self._states: dict[str, tuple[Revision, dict[str, Any]]] = {}
        """What this turn knows the sessions' own state to be, so that an append need not read it first."""

    # ── The writes ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _make(self, record: SessionRecord, state: Scoped) -> None:
        thread = _thread(record.key)
        head = writes.put(
            self._table,
            keys.session_head_key(thread),
            self._items.head(record, thread),
            only_if=FIRST_TIME_IN_ITS_LIFE,
            now=self._items.now(),
        )
        changes = [head]
        if record.state:
            changes.append(await self._put_state(thread, record.revision, record.state))
        try:
            await self._commit(record.key, state, *changes)
        except Refused:
            there = await self._reads.get(keys.session_head_key(thread))
            # An earlier try may have been heard after all.
            if there is None or revision_of(there).made != record.revision.made:
                raise AlreadyExistsError(f"There is a session {record.key.session_id!r} already.") from None
        self._states[thread] = record.revision, dict(record.state)

    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: Scoped) -> Revision:
        thread, revision = _thread(key), Revision(known.number + 1, known.made)
        state = await self._state(thread, known)
        if state is None:
            return await self._kept_already(key, revision, event)
        changes = [
            self._move_head(thread, known, event, state_changes=bool(delta.session)),
            await self._put(keys.session_event_key(thread, revision.number), event_bytes(event), thread),
        ]
        if delta.session:
            state = {**state, **delta.session}
            changes.append(await self._put_state(thread, revision, state))
        try:
            await self._commit(key, delta, *changes)
        except Refused:
            await self._kept_already(key, revision, event)
        self._states[thread] = revision, state
        return revision

    async def _kept_already(self, key: SessionKey, revision: Revision, event: Event) -> Revision:
        """Return the revision if an earlier try of this very append was heard after all; raises what is wrong if not."""
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
        await self._rows.delete(_thread(key))
        self._states.pop(_thread(key), None)

    async def _commit(self, key: SessionKey, shared: Scoped, *changes: Write) -> None:
        """Make the changes, and those of the shared state; of these, what does not fit in is written before."""
        change = await self._shared_state.change(key, shared)
        values = change.writes
        while len(values) > VALUES_AT_ONCE:
            await self._rows.transact(*values[:VALUES_AT_ONCE])
            values = values[VALUES_AT_ONCE:]
        await self._rows.transact(*changes, *values)
        await self._shared_state.made(change)

    def _move_head(self, thread: str, known: Revision, event: Event, *, state_changes: bool) -> Write:
        """One more event, where the session is as it was read."""
        moves = "revision = :revision, updated = :updated, expires = :expires"
        values: dict[str, object] = {}
        if state_changes:
            moves += ", state_revision = :revision"
        if thread in self._rows.renewed:
            moves += ", renewed = :renewed"
            values["renewed"] = self._rows.renewed[thread]
        return writes.update(
            self._table,
            keys.session_head_key(thread),
            f"SET {moves}",
            only_if=SESSION_IS_AS_READ,
            known=known.number,
            made=known.made,
            revision=known.number + 1,
            updated=repr(event.timestamp),
            expires=self._items.expires(),
            **values,
        )

    async def _put_state(self, thread: str, revision: Revision, state: dict[str, Any]) -> Write:
        """The session's own state, as it is at the revision."""
        at = {"made": items.text(revision.made), "revision": items.number(revision.number)}
        return await self._put(keys.session_state_key(thread), value_bytes(state), thread, **at)

    async def _put(self, key: keys.Key, content: bytes, thread: str, **attributes: Item) -> Write:
        kept = await self._items.sealed(key, content, folder=f"{SESSIONS}/{thread}")
        attributes = {"v": items.number(items.VERSION), "expires": self._items.row_expires(), **attributes, **kept}
        return writes.put(self._table, key, attributes)

    # ── The reads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        return await self._read_thread(_thread(key), newest=newest)

    async def _read_thread(self, thread: str, *, newest: int | None) -> SessionRecord | None:
        found = await self._rows.read(thread, newest=newest)
        if found is None:
            return None
        record = record_of(found.head)
        state = mapping_of(await self._items.content(found.state)) if found.state is not None else {}
        self._states[thread] = record.revision, state
        contents = await self._items.contents(found.events)
        return replace(record, state=dict(state), events=[event_of(content) for content in contents])

    async def _state(self, thread: str, known: Revision) -> dict[str, Any] | None:
        """Return the session's own state at the revision; None where the session is not at it any more."""
        if thread not in self._states or self._states[thread][0] != known:
            record = await self._read_thread(thread, newest=0)
            if record is None or record.revision != known:
                return None
        return self._states[thread][1]

    async def _shared(self, app_name: str, user_id: str) -> Scoped:
        return await self._shared_state.of(app_name, user_id)

    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        # The index follows the table by a moment: what it names is read where it is.
        threads: list[str] = []
        start: dict[str, Any] = {}
        while True:
            page = await self._dynamodb(
                "query",
                TableName=self._table,
                IndexName=BY_AGENT.name,
                KeyConditionExpression=f"{BY_AGENT.partition} = :sessions",
                ExpressionAttributeValues={":sessions": items.text(keys.listing_sessions(user_id, app_name))},
                **start,
            )
            threads += [keys.listed(item[BY_AGENT.sort]["S"]).task_id for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        records = await asyncio.gather(*(self._read_thread(thread, newest=0) for thread in threads))
        return [record for record in records if record is not None]


def _thread(key: SessionKey) -> str:
    return keys.session_thread(key.user_id, key.app_name, key.session_id)
