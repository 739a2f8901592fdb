"""The task log on DynamoDB, with the promises of `ports.TaskStore`; payloads too large for a row lie in S3.

A turn's time line, a line a request:

    create   put MESSAGE, TASK/HEAD, TASK/EVENT#1, TASK/EVENT#2; take the CONTEXT's lease    all or nothing
    deltas   put DELTA, as often as a batch of chunks is ready                                plain puts
    append   put TASK/EVENT#3; move TASK/HEAD on; give the CONTEXT's lease back              all or nothing
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from aion_core.aws import items, keys
from aion_core.aws.client import Calls, Refused, let_others_write
from aion_core.aws.items import Item
from aion_core.aws.task_writes import HEAD_IS_AS_I_KNOW_IT, TASK_HAS_NOT_GONE_ON, ContextRecord, TaskWrites
from aion_core.aws.writes import Write, put
from aion_core.errors import LeaseLost, StoreCorrupt, StoreUnavailable
from aion_core.ports import (
    Begun,
    Blobs,
    Clock,
    ContextKey,
    Cursor,
    DeltaBatch,
    FollowUp,
    Head,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    Repeated,
    TaskKey,
    Waiting,
)
from aion_core.protocol.types import Event, Message
from aion_core.tasks import ingress, lifecycle

LARGE_BYTES = 32 * 1024
"""From here on a payload lies in S3, which is cheaper than the write units of a row."""

TRIES = 8
"""How often a write is tried against others that are under way on the same item."""

TRIES_UNHEARD = 3
"""How often a write is tried whose answer does not come; boto3 tries each of them twice."""


class DynamoDBTaskStore:
    """`ports.TaskStore` in one table."""

    def __init__(
        self,
        dynamodb: Calls,
        blobs: Blobs,
        clock: Clock,
        *,
        table: str,
        lease_seconds: float = 30.0,
        retention: timedelta = timedelta(days=30),
    ) -> None:
        """Tasks, and all that belongs to them, are kept for `retention` after they were made."""
        self._dynamodb, self._blobs, self._clock, self._table = dynamodb, blobs, clock, table
        self._writes = TaskWrites(table, clock, lease_seconds=lease_seconds, retention=retention)

    async def create(self, new: NewTask, *, holder: str) -> Begun | Waiting | Repeated | Interrupted:
        """See `ports.TaskStore.create`."""
        events = [
            await self._put_event(new.key, generation, event, request=new.request if generation == 1 else None)
            for generation, event in enumerate(new.events, start=1)
        ]
        for attempt in range(TRIES):
            # A contextId that we made is known to be free: nothing is read.
            context = None if new.context_is_new and not attempt else await self._context(new.context)
            if context is not None and context.interrupted is not None:
                return await self.known(new.context, new.message_id, new.content_hash) or Interrupted(
                    context.interrupted
                )
            free = context is None or (context.running is None and not context.waiting)
            fence = (context.fence if context else 0) + 1
            lease = Lease(new.context, replace(new.turn, tries=1), holder, fence)
            head = replace(ingress.first_head(new), fence=fence if free else 0)
            try:
                await self._transact(
                    self._writes.put_message(new.context, new.message_id, new.key.task_id, new.content_hash),
                    self._writes.take(lease, context) if free else self._writes.wait(new),
                    self._writes.put_head(head),
                    *events,
                )
            except Refused as refused:
                known = await self._get(keys.message_key(new.context, new.message_id))
                if known is not None and known["task_id"]["S"] != new.key.task_id:
                    return ingress.repeat_of(new.content_hash, known["task_id"]["S"], known["content"]["B"])
                if known is not None:
                    return await self._created_before(new, holder)
                if not free and not refused.conflict:
                    raise ingress.too_many_wait() from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return Begun(lease, head) if free else Waiting(head)
        raise StoreUnavailable("The context changes faster than a task can be added to it.")

    async def _created_before(self, new: NewTask, holder: str) -> Begun | Waiting:
        """Return what an earlier try of this very call has done, whose answer was lost."""
        context = await self._context(new.context)
        head = await self.head(new.key)
        if context is None or head is None:
            raise StoreCorrupt("A task that was just made is gone.")
        if context.running is not None and context.running.id == new.turn.id and context.holder == holder:
            return Begun(Lease(new.context, context.running, holder, context.fence), head)
        return Waiting(head)

    async def follow_up(self, follow_up: FollowUp, *, holder: str) -> Begun | Repeated:
        """See `ports.TaskStore.follow_up`."""
        before, context_key = follow_up.head, follow_up.head.context
        after = lifecycle.advance(before, follow_up.event)
        token = str(uuid4())
        row = await self._put_event(
            before.key, after.generation, follow_up.event, token=token, asked=follow_up.asked, request=follow_up.request
        )
        for attempt in range(TRIES):
            context = await self._context(context_key)
            if context is None:
                raise StoreCorrupt("The context of a task that waits for an answer is gone.")
            if context.running is not None and context.running.id != follow_up.turn.id:
                raise ingress.another_runs()
            lease = Lease(context_key, replace(follow_up.turn, tries=1), holder, context.fence + 1)
            try:
                await self._transact(
                    self._writes.put_message(
                        context_key, follow_up.message_id, before.key.task_id, follow_up.content_hash
                    ),
                    self._writes.take_again(lease, context),
                    self._writes.move_head(before, after, TASK_HAS_NOT_GONE_ON, fence=lease.fence),
                    row,
                    token=token,
                )
            except Refused as refused:
                if await self._is_mine(before.key, after.generation, token):
                    # An earlier try was heard after all; which fence it took is in the head it wrote.
                    written = await self.head(before.key) or after
                    return Begun(replace(lease, fence=written.fence), written)
                repeated = await self.known(context_key, follow_up.message_id, follow_up.content_hash)
                if repeated is not None:
                    return repeated
                head = await self.head(before.key)
                if not refused.conflict and (head is None or head.generation != before.generation):
                    raise ingress.no_longer_asked() from None
                await let_others_write(attempt)
            except StoreUnavailable:
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return Begun(lease, replace(after, fence=lease.fence))
        raise StoreUnavailable("The context changes faster than a message can be added to it.")

    async def known(self, context: ContextKey, message_id: str, content_hash: bytes) -> Repeated | None:
        """See `ports.TaskStore.known`."""
        known = await self._get(keys.message_key(context, message_id))
        return ingress.repeat_of(content_hash, known["task_id"]["S"], known["content"]["B"]) if known else None

    async def begin(self, context: ContextKey, *, holder: str) -> Begun | None:
        """See `ports.TaskStore.begin`."""
        record = await self._context(context)
        if record is None or (record.running is not None and record.until > self._now()):
            return None
        turn = record.running or next(iter(record.waiting), None)
        if turn is None or record.interrupted is not None:
            return None
        lease = Lease(context, replace(turn, tries=turn.tries + 1), holder, record.fence + 1)
        task = TaskKey(context.owner, turn.task_id)
        try:
            await self._transact(
                self._writes.take_over(lease, record) if record.running else self._writes.take_next(lease, record),
                self._writes.raise_fence(task, lease.fence),
            )
        except Refused:
            # Somebody else was faster: what is to be done is theirs to do.
            return None
        head = await self.head(task)
        return Begun(lease, head) if head else None

    def renew(self, lease: Lease) -> bool:
        """See `ports.TaskStore.renew`."""
        try:
            self._dynamodb.blocking("update_item", **self._writes.renew(lease)["Update"])
        except Refused as refused:
            return refused.conflict
        return True

    async def append(self, lease: Lease, head: Head, event: Event, *, release: bool = False, key: str = "") -> Head:
        """See `ports.TaskStore.append`."""
        after = lifecycle.advance(head, event)
        token = str(uuid4())
        row = await self._put_event(head.key, after.generation, event, token=token, key=key)
        writes = [self._writes.move_head(head, after, HEAD_IS_AS_I_KNOW_IT, fence=lease.fence), row]
        if release:
            writes.append(self._writes.release(lease, after))
        for attempt in range(TRIES):
            try:
                await self._transact(*writes, token=token)
            except Refused as refused:
                if await self._is_mine(head.key, after.generation, token):
                    return after
                if not refused.conflict:
                    raise LeaseLost("Another holder runs this context now.") from None
                await let_others_write(attempt)
            except StoreUnavailable:
                # It may have been made: the next try, with the same token, finds out.
                if attempt + 1 == TRIES_UNHEARD:
                    raise
                await let_others_write(attempt)
            else:
                return after
        raise StoreUnavailable("The task is being written by too many at once.")

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """See `ports.TaskStore.append_deltas`."""
        await self._dynamodb("put_item", **self._writes.put_deltas(key, batch)["Put"])

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        item = await self._get(keys.head_key(key))
        return items.head_of(key, item) if item is not None else None

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        events: list[Numbered] = []
        head: Head | None = None
        while head is None or after + len(events) < head.generation:
            read = after + len(events)
            found = await self._query(keys.task_partition(key), keys.event_sort(read + 1), keys.HEAD)
            if not found or found[-1]["sk"]["S"] != keys.HEAD:
                return None
            if head is not None and len(found) == 1:
                raise StoreCorrupt(f"Event {read + 1} of the task is missing.")
            head = items.head_of(key, found[-1])
            for generation, item in enumerate(found[:-1], start=read + 1):
                if item["sk"]["S"] != keys.event_sort(generation):
                    raise StoreCorrupt(f"Event {generation} of the task is missing.")
                events.append(await self._entry(generation, item))
        # The head was read after the events: what was appended in between is the next reader's.
        return Log(head, tuple(events[: head.generation - after]))

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        return [
            items.delta_batch_of(item)
            for item in await self._query(keys.delta_partition(key), keys.delta_sort(since), "~")
        ]

    # ── The writes ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _put_event(
        self,
        task: TaskKey,
        generation: int,
        event: Event,
        *,
        token: str = "",
        key: str = "",
        asked: Message | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> Write:
        attributes = {
            "token": items.text(token),
            **await self._payload(task, generation, "event", items.event_bytes(event)),
        }
        if asked is not None:
            attributes |= await self._payload(task, generation, "asked", asked.SerializeToString())
        if key:
            attributes["key"] = items.text(key)
        if request:
            attributes["request"] = items.text(json.dumps(request))
        return put(self._table, keys.event_key(task, generation), {**attributes, **self._writes.keeping()})

    async def _payload(self, task: TaskKey, generation: int, name: str, packed: bytes) -> Item:
        """Return the attribute that holds the bytes, or says where they lie."""
        if len(packed) <= LARGE_BYTES:
            return {name: {"B": packed}}
        # The blob first: a row never points at nothing, and a blob that no row names expires with the bucket.
        blob = f"{task.owner}/{task.task_id}/{generation}-{name}-{uuid4()}"
        await self._blobs.put(blob, packed)
        return {f"{name}_blob": items.text(blob)}

    # ── The reads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _context(self, key: ContextKey) -> ContextRecord | None:
        # Expired or not: its fence has to grow for as long as the item is there.
        found = await self._dynamodb("get_item", TableName=self._table, Key=keys.context_key(key), ConsistentRead=True)
        item: Item | None = found.get("Item")
        if item is None:
            return None
        fence = int(item.get("fence", {"N": "0"})["N"])
        if not self._lives(item):
            return ContextRecord(fence, "", 0, None, (), None, expired=True)
        return ContextRecord(
            fence=fence,
            holder=item["holder"]["S"] if "holder" in item else "",
            until=int(item.get("until", {"N": "0"})["N"]),
            running=items.turn_of(item["running"]) if "running" in item else None,
            waiting=tuple(items.turn_of(turn) for turn in item.get("waiting", {"L": []})["L"]),
            interrupted=item["interrupted"]["S"] if "interrupted" in item else None,
        )

    async def _entry(self, generation: int, item: Item) -> Numbered:
        packed = await self._unpacked("event", item)
        if packed is None:
            raise StoreCorrupt("An event of the log holds nothing.")
        asked = await self._unpacked("asked", item)
        return Numbered(
            generation,
            items.event_of(packed),
            Message.FromString(asked) if asked is not None else None,
            item["key"]["S"] if "key" in item else "",
            json.loads(item["request"]["S"]) if "request" in item else {},
        )

    async def _unpacked(self, name: str, item: Item) -> bytes | None:
        if f"{name}_blob" not in item:
            return item[name]["B"] if name in item else None
        packed = await self._blobs.get(item[f"{name}_blob"]["S"])
        if packed is None:
            raise StoreCorrupt("The payload of an event is missing.")
        return packed

    async def _is_mine(self, key: TaskKey, generation: int, token: str) -> bool:
        """Tell whether a write whose answer was lost had been made after all."""
        item = await self._get(keys.event_key(key, generation))
        return item is not None and item["token"]["S"] == token

    async def _get(self, key: keys.Key) -> Item | None:
        found = await self._dynamodb("get_item", TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = found.get("Item")
        return item if item is not None and self._lives(item) else None

    async def _query(self, partition: str, first: str, last: str) -> list[Item]:
        """Return the living items of the partition between the two sort keys, consistently, however many they are."""
        found: list[Item] = []
        start: dict[str, Item] = {}
        while True:
            page = await self._dynamodb(
                "query",
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
                ExpressionAttributeValues={
                    ":pk": items.text(partition),
                    ":first": items.text(first),
                    ":last": items.text(last),
                },
                **start,
            )
            found.extend(item for item in page["Items"] if self._lives(item))
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _lives(self, item: Item) -> bool:
        # DynamoDB deletes expired items late, and one by one.
        return "expires" not in item or int(item["expires"]["N"]) > self._clock.now().timestamp()

    # ── The rest ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _transact(self, *writes: Write, token: str | None = None) -> None:
        await self._dynamodb(
            "transact_write_items", TransactItems=list(writes), ClientRequestToken=token or str(uuid4())
        )

    def _now(self) -> int:
        return items.milliseconds(self._clock.now())
