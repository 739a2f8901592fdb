"""Tasks that wait for their clients' answers, and the classes of agents' code that their stored state contains."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_json import decoded_item
from aion_core.clock import Clock
from aion_core.engine.task.states import INTERRUPTED
from aion_core.protocol.types import TaskState
from aion_core.state.langgraph.class_record import StoredClass, recorded_classes
from aion_core.state.langgraph.thread_items import StoredCheckpoint, ThreadItems
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import SORT
from aion_core.table.keys import ContextKey
from aion_core.table.payloads import Payloads
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.schema import BY_CONTEXT, STATE, TTL_ATTRIBUTE

PAGES = 300
"""Number of pages of the index to read, of 1 MB each. They have about a million tasks."""


@dataclass(frozen=True)
class WaitingTasks:
    """Tasks that wait for an answer: the number of tasks in each context, with the newest question first."""

    contexts: Mapping[ContextKey, int]
    is_complete: bool
    """False if the index has more pages than `PAGES`."""

    def newest(self, limit: int) -> list[ContextKey]:
        """Return the contexts with the newest questions that have at most `limit` tasks together."""
        tasks = accumulate(self.contexts.values())
        return [context for context, number in zip(self.contexts, tasks, strict=True) if number <= limit]


async def waiting_tasks(dynamodb: AwsClient, table: str, clock: Clock) -> WaitingTasks:
    """Scan the index of the tasks by context, which has small entries and all owners. Raises StoreError."""
    states = {f":s{state}": {"S": TaskState.Name(state)} for state in INTERRUPTED}
    request = {
        "TableName": table,
        "IndexName": BY_CONTEXT.name,
        "FilterExpression": f"#state IN ({', '.join(states)}) AND #expires > :now",
        "ExpressionAttributeNames": {"#state": STATE, "#expires": TTL_ATTRIBUTE},
        "ExpressionAttributeValues": {**states, ":now": {"N": str(int(clock.now().timestamp()))}},
    }
    start: dict[str, Any] = {}
    found = []
    for _ in range(PAGES):
        page = await dynamodb("scan", **request, **start)
        found += [decoded_item(entry) for entry in page["Items"]]
        if "LastEvaluatedKey" not in page:
            start = {}
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    found.sort(key=lambda entry: entry[BY_CONTEXT.sort], reverse=True)
    contexts = Counter(keys.context_of_listing(entry[BY_CONTEXT.partition]) for entry in found)
    return WaitingTasks(contexts, not start)


class WaitingState:
    """Reader of the state of waiting tasks. It constructs no object of it."""

    def __init__(self, table: Table, blobs: Blobs, clock: Clock) -> None:
        self._items, self._payloads = ThreadItems(Reads(table, clock)), Payloads(blobs)

    async def checkpoints(self, context: ContextKey) -> Sequence[StoredCheckpoint]:
        """Return the newest checkpoint of the context's LangGraph thread, and those of the subgraphs that wait.

        Subgraphs that a `Send` runs are left out. Raises StoreError.
        """
        found: list[StoredCheckpoint] = []
        namespaces = [""]
        while namespaces:
            checkpoint = await self._newest(keys.thread_id(context), namespaces.pop())
            if checkpoint is not None:
                found.append(checkpoint)
                namespaces += _nested(checkpoint)
        return found

    async def _newest(self, thread_id: str, ns: str) -> StoredCheckpoint | None:
        async with aclosing(self._items.newest_first(thread_id, keys.checkpoint_sort(ns, ""))) as stored:
            return await anext(stored, None)

    async def channels_with(self, stored: StoredCheckpoint, named: StoredClass) -> set[str]:
        """Return the channels of a checkpoint, or of the writes after it, with an object of this class."""
        channels = set()
        for item in (stored.item, *stored.writes):
            for payload in (await self._payloads.of(item)).values():
                if named in recorded_classes(payload.type):
                    channels |= {payload.channel} if payload.channel else _channels(payload.serialized[1], named)
        return channels


def classes_of(stored: StoredCheckpoint) -> set[StoredClass]:
    """Return the classes in a checkpoint and in the writes after it."""
    values = [value for item in (stored.item, *stored.writes) for value in item.values()]
    return {named for value in values if isinstance(value, dict) for named in recorded_classes(value["type"])}


_NODE = "~__pregel_pull, "
"""Start of the `task_path` of a node's LangGraph task, before the node's name."""


def _nested(stored: StoredCheckpoint) -> list[str]:
    """Return the checkpoint namespaces of the subgraphs that the waiting nodes may have."""
    above = f"{stored.place.ns}|" if stored.place.ns else ""
    return sorted(
        {
            f"{above}{write['task_path'].removeprefix(_NODE)}:{keys.checkpoint_of(write[SORT]).task_id}"
            for write in stored.writes
            if write["task_path"].startswith(_NODE)
        }
    )


def _channels(content: bytes, named: StoredClass) -> set[str]:
    # Import late: a project without LangGraph does not have it.
    import ormsgpack

    name = ormsgpack.packb(named.module) + ormsgpack.packb(named.name)
    checkpoint = ormsgpack.unpackb(content, ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)[0]
    values = checkpoint["channel_values"].items()
    return {channel for channel, value in values if name in ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS)}
