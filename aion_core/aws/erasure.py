"""The deletion of everything that a survey has found, in an order that leaves a late worker nothing to write to.

    API keys      nobody calls with them any more
    fences        raised in the owner's contexts, and in the tasks that run: a worker's next write is refused
    objects       all versions, and the delete markers
    items         events, checkpoints, sessions, and what else leads to nothing
    leads         heads, message ids, then contexts: from these the hashed partitions follow

A deletion that is killed is run again: a new survey finds what is left.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from aion_core.aws import items, keys, owned
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write
from aion_core.aws.survey import LEFTOVERS, Found, KeyOwner, Progress, Survey, Version, patiently
from aion_core.aws.writes import FIRST_TIME, Write, check, update
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.ports import Clock

ITEMS_AT_ONCE = 25
"""The most that one batch of DynamoDB may delete."""

VERSIONS_AT_ONCE = 250
"""S3 takes 1000; a request with fewer is answered in time."""

ITEM_IS_THERE = "attribute_exists(pk)"
HAS_EXPIRED = "attribute_exists(pk) AND expires <= :now"

FENCE_OFF = (
    "SET fence = if_not_exists(fence, :zero) + :one "
    "REMOVE holder, #until, running, waiting, interrupted, due_shard, due_at"
)

T = TypeVar("T")


class Erasure:
    """Finds and deletes everything of some owners, in one table and one bucket."""

    def __init__(
        self,
        dynamodb: Calls,
        s3: Calls,
        clock: Clock,
        *,
        table: str,
        bucket: str,
        owner_of_key: KeyOwner,
        retention: timedelta,
    ) -> None:
        """The options are the survey's."""
        self._dynamodb, self._s3, self._clock = dynamodb, s3, clock
        self._table, self._bucket = table, bucket
        self._survey = Survey(
            dynamodb, s3, clock, table=table, bucket=bucket, owner_of_key=owner_of_key, retention=retention
        )

    async def find(self, owners: Collection[str], agents: Collection[str], progress: Progress) -> Found:
        """See `Survey.find`."""
        return await self._survey.find(owners, agents, progress)

    async def delete(self, found: Found, progress: Progress) -> None:
        """Delete what was found, there or not; raises StoreError.

        What is written after the survey stays; a worker cannot write to a task that is gone, though it may still put
        an object or a stream delta before its next write is refused. A second survey finds these.
        """
        own = [row for row in found.rows if row.store != LEFTOVERS]
        api_keys = [row.key for row in own if row.store == owned.API_KEYS]
        await self._delete_items(api_keys)
        await self._fence_off(found)
        # A marker last: without it, the newest version that is left would be the object again.
        by_kind = sorted(found.versions, key=lambda version: version.is_marker)
        for number, versions in _counted(by_kind, VERSIONS_AT_ONCE):
            progress("versions of objects deleted", number)
            await self._delete_versions(versions)
        done = len(api_keys)
        ranked = sorted((row for row in own if row.store != owned.API_KEYS), key=lambda row: owned.rank_of(row.key))
        for number, rows in _counted(ranked, ITEMS_AT_ONCE):
            progress("items of the table deleted", done + number)
            await self._delete_items([row.key for row in rows])
        for row in found.rows:
            if row.store == LEFTOVERS:
                await self._delete_leftover(row.key)
        for mention in found.mentions:
            change = update(
                self._table, mention.key, "DELETE tasks :texts", only_if=ITEM_IS_THERE, texts={"SS": [*mention.texts]}
            )
            await self._unless_gone(change)

    async def _fence_off(self, found: Found) -> None:
        """Take the contexts from whoever runs or waits in them; refuse what the workers still write to their tasks."""
        for key in found.busy:
            await self._unless_gone(update(self._table, key, FENCE_OFF, only_if=ITEM_IS_THERE, zero=0, one=1))
        for task in found.running:
            raised = "SET fence = fence + :one"
            await self._unless_gone(update(self._table, keys.head_key(task), raised, only_if=ITEM_IS_THERE, one=1))

    async def _unless_gone(self, write: Write) -> bool:
        """Change the item; tell whether it was as the condition says."""
        for attempt in range(TRIES):
            try:
                await patiently(self._dynamodb, "update_item", **write["Update"])
            except Refused as refused:
                if not refused.conflict:
                    return False
                await let_others_write(attempt)
            else:
                return True
        raise StoreUnavailable("An item is being written by too many at once.")

    async def _delete_items(self, found: Sequence[keys.Key]) -> None:
        for _, some in _counted(found, ITEMS_AT_ONCE):
            left: list[dict[str, Any]] = [{"DeleteRequest": {"Key": key}} for key in some]
            for attempt in range(TRIES):
                requests = {self._table: left}
                answer = await patiently(self._dynamodb, "batch_write_item", RequestItems=requests)
                left = answer.get("UnprocessedItems", {}).get(self._table, [])
                if not left:
                    break
                # The table is being throttled: what it has not done is asked for again, after a while.
                await let_others_write(attempt)
            else:
                raise StoreUnavailable("The table is throttled. Run the command again: it goes on where it was.")

    async def _delete_versions(self, versions: Sequence[Version]) -> None:
        objects = [{"Key": version.name, "VersionId": version.version_id} for version in versions]
        answer = await patiently(
            self._s3, "delete_objects", Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True}
        )
        if errors := answer.get("Errors"):
            raise StoreError(f"DeleteObjects: {errors[0].get('Code', '')}")

    async def _delete_leftover(self, key: keys.Key) -> None:
        """Delete the item, unless its session was made anew, or it is in force again."""
        partition = key["pk"]["S"]
        delete: dict[str, Any] = {"TableName": self._table, "Key": key}
        if partition.startswith("SESSION#"):
            no_head = check(self._table, keys.session_head_key(owned.id_of(partition)), FIRST_TIME)
            writes = [no_head, {"Delete": delete}]
        else:
            now = items.number(int(self._clock.now().timestamp()))
            delete |= {"ConditionExpression": HAS_EXPIRED, "ExpressionAttributeValues": {":now": now}}
            writes = [{"Delete": delete}]
        try:
            await patiently(self._dynamodb, "transact_write_items", TransactItems=writes)
        except Refused:
            return


def _counted(whole: Iterable[T], size: int) -> Iterator[tuple[int, list[T]]]:
    """Yield lists of at most so many, each with how many there were before it and in it."""
    left, count = iter(whole), 0
    while some := list(islice(left, size)):
        count += len(some)
        yield count, some
