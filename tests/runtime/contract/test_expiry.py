"""Expired items that DynamoDB has not deleted yet: to each reader and each writer they are gone.

Each store is read and written in the millisecond in which one of its items expires: once as it is, and once without its expired
items. A millisecond before, it is read and written as if the item never expired.
"""

import dataclasses
import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aion_core.auth.api_keys import ApiKeys, KeyRecord
from aion_core.engine.listing.task_list import TaskFilter, TaskList
from aion_core.protocol.types import TaskState
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.state.long_term_memory import LongTermMemory
from aion_core.table.item import key_of
from aion_core.table.schema import TTL_ATTRIBUTE, VERSION_ATTRIBUTE
from aion_core.table.writes import Change, Update
from tests.runtime.contract.processes import (
    JOBS,
    OWNER,
    PLACE,
    SCOPE,
    SESSION,
    SUBJECTS,
    TASK,
    Act,
    Process,
    Subject,
    configs,
    creates,
    many_checkpoints,
    sends,
    session,
    sessions,
)
from tests.runtime.contract.test_second_writer import outcome_of
from tests.support.between_writes import BetweenWrites

MILLISECOND = timedelta(milliseconds=1)


async def adds_for_an_hour(process: Process) -> None:
    now = process.clock.now()
    record = KeyRecord("id", "hash", "alice", now, "last", expires=now + timedelta(hours=1))
    await ApiKeys(process.table, process.clock).add(record)


async def found_key(process: Process) -> Any:
    store = ApiKeys(process.table, process.clock)
    return await store.find("id") is not None, len(await store.all())


async def listed(process: Process) -> Any:
    store, tasks = TaskList(process.table, process.clock), TaskFilter(OWNER, "echo")
    working = TaskFilter(OWNER, "echo", "c-1", state=TaskState.TASK_STATE_WORKING)
    return [
        (len((await store.page(each, after=None, limit=10)).found), await store.count(each))
        for each in (tasks, working)
    ]


async def checkpoints(process: Process) -> Any:
    saver = TableSaver(process.table, process.blobs, process.clock)
    found = await saver.aget_tuple(PLACE)
    return (
        found and found.checkpoint["id"],
        [each.checkpoint["id"] async for each in saver.alist(PLACE)],
        await saver.is_empty(PLACE),
    )


async def memories(process: Process) -> Any:
    memory = LongTermMemory(process.table, process.clock)
    return (
        await memory.get(SCOPE, ("n",), "k") is not None,
        [item.key async for item in memory.search(SCOPE, ())],
        await memory.namespaces(SCOPE, ()),
    )


async def all_sessions(process: Process) -> Any:
    service = sessions(process)
    names = {name: SESSION[name] for name in ("app_name", "user_id")}
    return len((await service.list_sessions(**names)).sessions), await session(process)


async def tasks(process: Process) -> Any:
    chat = process.chat()
    found = {name: await chat.store.log(chat.key(name)) for name in ("t-m-1", "t-m-2", "t-m-3")}
    return [(name, log.head.state, len(log.events)) for name, log in found.items() if log], await listed(process)


async def pushes(process: Process) -> Any:
    store = configs(process)
    return await store.get(TASK, "p-1") is not None, len(await store.all(TASK)), len(await store.deliveries(TASK))


async def calls(process: Process) -> Any:
    store = process.chat().store.remote_calls
    return len(await store.of_task(TASK)), len(await store.to_cancel(TASK))


HELD = re.compile("tells|ends|hands over|asks|pauses|waits$|advances|settles|fails|gives up|disables")
"""Acts of a turn or an attempt that began before: its lease has ended long before the items expire."""


async def renews_session(process: Process) -> None:
    service = sessions(process)
    if (found := await service.get_session(**SESSION)) is not None:
        await service.renew(found)


async def renews_thread(process: Process) -> None:
    await TableSaver(process.table, process.blobs, process.clock).renew(PLACE)


async def clears_event(process: Process) -> None:
    await configs(process).clear(TASK, 1)


OTHERS: dict[str, Act] = {
    "sends m-1": sends("m-1"),
    "creates": creates("one"),
    "renews session": renews_session,
    "renews thread": renews_thread,
    "clears event": clears_event,
}
"""Acts that begin anew what has expired and else repeat it, and acts on one item."""

READERS: dict[str, Act] = {
    **dict.fromkeys(("running turn", "waiting turn", "question", "free context"), tasks),
    "canceled remote calls": calls,
    "deliveries": pushes,
    "session": all_sessions,
    "memory": memories,
}
STORES = {
    **{name: dataclasses.replace(SUBJECTS[name], seen=reader, others=OTHERS) for name, reader in READERS.items()},
    "API key": Subject(adds_for_an_hour, {}, found_key),
    "checkpoints": Subject(many_checkpoints, JOBS["deletes a thread"].acts, checkpoints, OTHERS),
}


async def at(moment: datetime, subject: Subject, act: str, change: str) -> list[Any]:
    """Return the outcomes of the act and of the reader after it, at this time and after a change of the stored items."""
    first = Process("before")
    await subject.given(first)
    first.clock.move((moment - first.clock.now()).total_seconds())
    table: Any = first.stored[0]
    if change == "deleted":
        table.delete_expired(moment + MILLISECOND)
    for item in table.items() if change == "kept" else ():
        if TTL_ATTRIBUTE in item:
            await table.write(Update(key_of(item), Change({TTL_ATTRIBUTE: item[TTL_ATTRIBUTE] + 1000})))
    acts = [subject.act(act), subject.seen] if act else [subject.seen]
    outcomes = [await outcome_of(each, Process("after", first)) for each in acts]
    # A context that begins anew has another fence if its old item is still there.
    return [each[::2] if isinstance(each, tuple) and isinstance(each[0], str) else each for each in outcomes]


@pytest.mark.parametrize("name", STORES)
async def test_write_after_deletion_by_ttl_leaves_no_part_of_item(name: str) -> None:
    """Freeze a process before each of its writes, until DynamoDB has deleted what it has read: no item has lost its rest."""
    subject, wrong = STORES[name], dict[str, Any]()
    acts = {**subject.acts, **subject.others}
    for end, act, is_late in itertools.product(await ends_of(subject), acts, (False, True)):
        for write in itertools.count(1):
            first, deleted = Process("before"), list[Any]()
            await subject.given(first)
            table: Any = first.stored[0]
            if is_late:
                first.clock.move((end - MILLISECOND - first.clock.now()).total_seconds())

            async def expires(first: Process = first, end: datetime = end, deleted: list[Any] = deleted) -> None:
                first.clock.move((end - first.clock.now()).total_seconds())
                deleted.append(first.stored[0].delete_expired(end + MILLISECOND))

            await outcome_of(subject.act(act), Process("mine", first, BetweenWrites(write, expires)))
            if not deleted:
                break
            if parts := [item for item in table.items() if VERSION_ATTRIBUTE not in item]:
                wrong[f"{act}, before write {write} at {end}"] = parts
    assert wrong == {}


async def ends_of(subject: Subject) -> set[datetime]:
    """Return the times at which an item of the store expires."""
    first = Process("before")
    await subject.given(first)
    table: Any = first.stored[0]
    return {datetime.fromtimestamp(item[TTL_ATTRIBUTE], UTC) for item in table.items() if TTL_ATTRIBUTE in item}


@pytest.mark.parametrize("name", STORES)
async def test_expired_items_are_read_as_if_deleted(name: str) -> None:
    subject, wrong = STORES[name], dict[str, Any]()
    ends = await ends_of(subject)
    acts = [act for act in {**subject.acts, **subject.others} if not HELD.match(act)]
    for end, act in itertools.product(ends, ["", *acts]):
        for moment, change in ((end, "deleted"), (end - MILLISECOND, "kept")):
            found, expected = [await at(moment, subject, act, each) for each in ("", change)]
            if found != expected:
                wrong[f"{act}, {change} at {moment}"] = found, expected
    assert ends
    assert wrong == {}
