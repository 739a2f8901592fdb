"""Survey of all data of some owners, by one scan of the table and a listing of the owners' folders in the bucket."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

from aion_core.engine.context.record import turn_of
from aion_core.engine.limits.open_tasks import owner_named_in
from aion_core.errors import StoreUnavailable
from aion_core.table.conditions import Absent, Condition, Either, Exists, OneOf
from aion_core.table.item import PARTITION, Item, key_of
from aion_core.table.keys import TaskKey, owner_folder, owner_tag
from aion_core.table.port import Table
from aion_core.table.reads import all_pages
from aion_core.table.retries import MAX_ATTEMPTS, jitter
from aion_core.table.schema import OWNER_ATTRIBUTE
from aion_core.table.semantics.values import item_size
from aion_tools.erasure import kinds
from aion_tools.erasure.found import Mention, OwnedData, OwnedItem, OwnedVersion
from aion_tools.erasure.stores import ObjectVersions

T = TypeVar("T")
SEGMENTS = 4
"""Number of parallel scan segments."""
AT_ONCE = 16
"""Number of folders to list concurrently."""
MOST_FILTERED = 500
"""Number of owners up to which the table filters the scan. DynamoDB's filter has at most 4 KB, and 100 values a list."""
Progress = Callable[[str, int], None]
"""Callback for progress. It gets the current step, and the number of its items or objects so far."""


async def survey(table: Table, objects: ObjectVersions, owners: Collection[str], progress: Progress) -> OwnedData:
    """Find all data of the owners. Raises StoreError, and ConfigurationError for items of another layout."""
    found, tags = OwnedData(), {owner_tag(owner): owner for owner in owners}
    only_if = _may_concern(tuple(tags)) if len(tags) <= MOST_FILTERED else None

    async def scan(segment: int) -> None:
        page = partial(table.scan, segment=segment, segments=SEGMENTS, only_if=only_if, consistent=True)
        async for each in all_pages(lambda after: retry_unavailable(partial(page, after=after))):
            for item in each.items:
                _add(found, item, tags)
            progress("items found", len(found.rows))

    async def list_folder(owner: str, folder: str) -> None:
        page = partial(objects.page, f"{owner_folder(folder, owner)}/")
        async for each in all_pages(lambda after: retry_unavailable(partial(page, after=after))):
            for version in each.versions:
                found.versions.append(OwnedVersion(owner, kinds.OBJECTS[folder], version))
            progress("versions of objects found", len(found.versions))

    await asyncio.gather(*map(scan, range(SEGMENTS)))
    folders = [(owner, folder) for owner in owners for folder in kinds.OBJECTS]
    for start in range(0, len(folders), AT_ONCE):
        await asyncio.gather(*(list_folder(*each) for each in folders[start : start + AT_ONCE]))
    return found


def _may_concern(tags: tuple[str, ...]) -> Condition:
    """Return the filter for items of the owners, items without an owner, and items that may mention tasks of others."""
    owned = (OneOf(OWNER_ATTRIBUTE, tags[start : start + 100]) for start in range(0, len(tags), 100))
    return Either((*owned, Absent(OWNER_ATTRIBUTE), Exists("tasks")))


def _add(found: OwnedData, item: Item, tags: dict[str, str]) -> None:
    owner, key, prefix = tags.get(item.get(OWNER_ATTRIBUTE, "")), key_of(item), kinds.prefix_of(item[PARTITION])
    if owner is None:
        if OWNER_ATTRIBUTE not in item and prefix not in kinds.OF_THE_DEPLOYMENT:
            found.unknown[prefix] += 1
        for each in tags.values():
            if texts := frozenset(text for text in item.get("tasks", ()) if owner_named_in(text) == each):
                found.mentions.append(Mention(each, key, texts))
        return
    found.rows.append(OwnedItem(owner, kinds.ITEMS.get(prefix, prefix), key, item_size(item)))
    if "running" in item:
        found.running.append(TaskKey(owner, turn_of(item["running"]).task_id))
    if "running" in item or "waiting" in item:
        found.busy.append(key)


async def retry_unavailable(call: Callable[[], Awaitable[T]]) -> T:
    """Make the call and return its result. Repeat the call if it was throttled or its response was lost.

    Raises WriteRefused or StoreError.
    """
    for attempt in range(MAX_ATTEMPTS - 1):
        try:
            return await call()
        except StoreUnavailable:
            await jitter(attempt)
    return await call()
