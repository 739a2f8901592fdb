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
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event

from aion_core.aws import items, keys, writes
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write, try_unheard_again
from aion_core.aws.items import Item
from aion_core.aws.payloads import Payloads
from aion_core.aws.session_items import SessionItems, record_of, revision_of
from aion_core.aws.table import Table
from aion_core.aws.task_writes import FENCE_IS_MINE, FIRST_TIME_IN_ITS_LIFE
from aion_core.aws.writes import Write
from aion_core.checkpointing.turn import Fence
from aion_core.errors import LeaseLost, StoreCorrupt, StoreUnavailable
from aion_core.ports import Blobs, Cipher, Clock
from aion_core.sessions.service import Revision, SessionKey, SessionRecord, StoredSessions, not_found, stale
from aion_core.sessions.state import Scoped
from aion_core.sessions.stored import event_bytes, event_of, mapping_of, value_bytes, value_of

SESSION_IS_AS_READ = "made = :made AND revision = :known"

FIRST_PAGE, LARGEST_PAGE = 100, 1000
"""How many items of a session a query reads, newest first."""

VALUES_AT_ONCE = 80
"""How many values of shared state go into one transaction: it may hold 100 items, and 4 MB."""

DELETES_AT_ONCE = 50


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

        A session is kept for `retention` after its last event; a user's and an app's state for ever.
        """
        super().__init__(clock)
        self._dynamodb, self._table, self._fence = dynamodb, table, fence
        self._reads = Table(dynamodb, clock, name=table)
        self._items = SessionItems(Payloads(blobs), cipher, clock, retention=retention)
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
            now=int(self._clock.now().timestamp()),
        )
        changes = [head]
        if record.state:
            changes.append(await self._put_state(thread, record.revision, record.state))
        try:
            await self._commit(*changes, *await self._put_shared(record.key, state))
        except Refused:
            there = await self._reads.get(keys.session_head_key(thread))
            # An earlier try may have been heard after all.
            if there is None or revision_of(there).made != record.revision.made:
                raise AlreadyExistsError(f"There is a session {record.key.session_id!r} already.") from None
        self._states[thread] = record.revision, dict(record.state)

    async def _append(self, key: SessionKey, known: Revision, event: Event, delta: Scoped) -> Revision:
        thread, revision = _thread(key), Revision(known.number + 1, known.made)
        content = event_bytes(event)
        moves = "revision = :revision, updated = :updated, expires = :expires"
        changes: list[Write] = []
        state: dict[str, Any] | None = None
        if delta.session:
            state = await self._state(key, known)
            if state is None:
                return await self._kept_already(key, revision, event)
            state = {**state, **delta.session}
            changes.append(await self._put_state(thread, revision, state))
            moves += ", state_revision = :revision"
        head = writes.update(
            self._table,
            keys.session_head_key(thread),
            f"SET {moves}",
            only_if=SESSION_IS_AS_READ,
            known=known.number,
            made=known.made,
            revision=revision.number,
            updated=repr(event.timestamp),
            expires=self._items.expires(),
        )
        row = await self._put(keys.session_event_key(thread, revision.number), content, thread)
        try:
            await self._commit(head, row, *changes, *await self._put_shared(key, delta))
        except Refused:
            await self._kept_already(key, revision, event)
        if state is None and self._states.get(thread, (None,))[0] == known:
            state = self._states[thread][1]
        if state is not None:
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
        thread = _thread(key)
        # The head first: cut short, it leaves no session with a part of its events, and those left expire.
        changes = [keys.session_head_key(thread), keys.session_state_key(thread)]
        await self._commit(*(writes.delete(self._table, each) for each in changes))
        pages = self._reads.pages(
            keys.session_partition(thread),
            keys.event_sort(0),
            keys.HEAD,
            limit=LARGEST_PAGE,
            ProjectionExpression="pk, sk",
        )
        found = [writes.delete(self._table, each) async for page in pages for each in page]
        for start in range(0, len(found), DELETES_AT_ONCE):
            await self._commit(*found[start : start + DELETES_AT_ONCE])
        self._states.pop(thread, None)

    async def _put(self, key: keys.Key, content: bytes, thread: str, **attributes: Item) -> Write:
        kept = await self._items.sealed(key, content, folder=f"sessions/{thread}")
        return writes.put(
            self._table,
            key,
            {"v": items.number(items.VERSION), "expires": self._items.expires(), **attributes, **kept},
        )

    async def _put_state(self, thread: str, revision: Revision, state: dict[str, Any]) -> Write:
        return await self._put(
            keys.session_state_key(thread),
            value_bytes(state),
            thread,
            made=items.text(revision.made),
            revision=items.number(revision.number),
        )

    async def _put_shared(self, key: SessionKey, state: Scoped) -> list[Write]:
        """Return the changes of the shared state that go with the transaction.

        A value an item: two sessions that write two of them do not meet. More than fit are written before.
        """
        partitions = [
            (keys.app_state_partition(key.app_name), state.app),
            (keys.user_state_partition(key.user_id, key.app_name), state.user),
        ]
        changes = []
        for partition, values in partitions:
            for name, value in values.items():
                at = keys.shared_state_key(partition, name)
                kept = await self._items.sealed(at, value_bytes([name, value]), folder=f"kept/{partition}")
                changes.append(writes.put(self._table, at, {"v": items.number(items.VERSION), **kept}))
        while len(changes) > VALUES_AT_ONCE:
            await self._commit(*changes[:VALUES_AT_ONCE])
            changes = changes[VALUES_AT_ONCE:]
        return changes

    async def _commit(self, *changes: Write) -> None:
        """Make the changes, all or nothing; raises LeaseLost, Refused where one's condition does not hold."""
        guard = [self._check(self._fence)] if self._fence else []
        token = str(uuid4())
        for attempt in range(TRIES):
            try:
                await self._dynamodb("transact_write_items", TransactItems=[*guard, *changes], ClientRequestToken=token)
            except Refused as refused:
                if guard and refused.failed(0):
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.conflict:
                    raise
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return
        raise StoreUnavailable("The session is being written by too many at once.")

    def _check(self, fence: Fence) -> Write:
        return writes.check(self._table, keys.context_key(fence.context), FENCE_IS_MINE, fence=fence.number)

    # ── The reads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, key: SessionKey, *, newest: int | None) -> SessionRecord | None:
        return await self._read_thread(_thread(key), newest=newest)

    async def _read_thread(self, thread: str, *, newest: int | None) -> SessionRecord | None:
        for attempt in range(TRIES):
            found = await self._query(thread, newest=newest)
            if found is None:
                return None
            head, state, events = found
            record = record_of(head)
            # A query may see a part of a transaction: it is read again.
            wanted = record.revision.number if newest is None else min(newest, record.revision.number)
            if len(events) == wanted and (state is not None) == (int(head["state_revision"]["N"]) >= 0):
                kept = mapping_of(await self._items.content(state)) if state is not None else {}
                self._states[thread] = record.revision, kept
                contents = await self._items.contents(reversed(events))
                return replace(record, state=dict(kept), events=[event_of(content) for content in contents])
            await let_others_write(attempt)
        raise StoreCorrupt("A part of the session is missing.")

    async def _query(self, thread: str, *, newest: int | None) -> tuple[Item, Item | None, list[Item]] | None:
        """Return the living session's head, its state if that is the head's, and its newest events, newest first."""
        head: Item | None = None
        state: Item | None = None
        events: list[Item] = []
        pages = self._reads.pages(
            keys.session_partition(thread),
            keys.event_sort(1) if newest != 0 else keys.HEAD,
            keys.SESSION_STATE,
            limit=FIRST_PAGE if newest is None else newest + 2,
            largest=LARGEST_PAGE,
            ScanIndexForward=False,
        )
        async with aclosing(pages):
            async for page in pages:
                for item in page:
                    sort = item["sk"]["S"]
                    if sort == keys.SESSION_STATE:
                        state = item
                    elif sort == keys.HEAD:
                        head = item
                    # Of an earlier session of this name, whose events are not all deleted yet, there may be more.
                    elif head is not None and len(events) != newest and sort == _next_older(head, events):
                        events.append(item)
                if head is None or not self._reads.lives(head):
                    return None
                if len(events) == newest:
                    break
        if head is None:
            return None
        if state is not None and (state["made"], state["revision"]) != (head["made"], head["state_revision"]):
            state = None
        return head, state, events

    async def _state(self, key: SessionKey, known: Revision) -> dict[str, Any] | None:
        """Return the session's own state at the revision; None where the session is not at it any more."""
        thread = _thread(key)
        if thread not in self._states or self._states[thread][0] != known:
            record = await self._read_thread(thread, newest=0)
            if record is None or record.revision != known:
                return None
        return self._states[thread][1]

    async def _shared(self, app_name: str, user_id: str) -> Scoped:
        app, user = await asyncio.gather(
            self._values(keys.app_state_partition(app_name)),
            self._values(keys.user_state_partition(user_id, app_name)),
        )
        return Scoped(app=app, user=user)

    async def _values(self, partition: str) -> dict[str, Any]:
        found = await self._reads.query(partition, "STATE#", f"STATE#{keys.LAST}")
        return dict([value_of(content) for content in await self._items.contents(found)])

    async def _all(self, app_name: str, user_id: str) -> Sequence[SessionRecord]:
        # The index follows the table by a moment: what it names is read where it is.
        threads: list[str] = []
        start: dict[str, Any] = {}
        while True:
            page = await self._dynamodb(
                "query",
                TableName=self._table,
                IndexName="by_agent",
                KeyConditionExpression="listing_agent = :sessions",
                ExpressionAttributeValues={":sessions": items.text(keys.listing_sessions(user_id, app_name))},
                **start,
            )
            threads += [keys.listed(item["listing_at"]["S"]).task_id for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        records = await asyncio.gather(*(self._read_thread(thread, newest=0) for thread in threads))
        return [record for record in records if record is not None]


def _next_older(head: Item, events: Sequence[Item]) -> str:
    """Return the sort key of the event before those."""
    return keys.event_sort(revision_of(head).number - len(events))


def _thread(key: SessionKey) -> str:
    return keys.session_thread(key.user_id, key.app_name, key.session_id)
