"""Processes that share a table, blobs and a clock, and what they do: the operations of all stores, and their readers."""

import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.genai import types
from msgspec.structs import replace

from aion_core.auth.api_keys import ApiKeys, KeyRecord
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.fenced_writes import Fence
from aion_core.engine.limits.limits import Limits, OpenStream, OpenTask
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.records import Head
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.task import projection
from aion_core.engine.task_store import TaskStore
from aion_core.engine.timers import ExpiredTimer
from aion_core.errors import AionError, LeaseLost
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.protocol.types import Message, Part, Role
from aion_core.state.adk.artifacts import BlobArtifacts
from aion_core.state.adk.sessions import TableSessions
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.state.long_term_memory import LongTermMemory, MemoryScope, MemoryWrite
from aion_core.table import keys
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.payloads import LARGE_BYTES
from aion_core.table.times import milliseconds
from tests.runtime.contract.sessions import said, texts
from tests.support.between_writes import BetweenWrites
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.faulty_table import FaultyTable, TableFaults
from tests.support.pushes import a_config, expired_of
from tests.support.stores import CIPHER, LEASE_SECONDS

OWNER = "owner"
CONTEXT = ContextKey(OWNER, "echo", "c-1")
TASK = TaskKey(OWNER, "t-m-1")
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
ERRORS = (AionError, StaleSessionError, AlreadyExistsError, SessionNotFoundError)
REFUSED = (False, [False], "ClaimLost", "LeaseLost", "StaleSessionError")
"""Outcomes of an operation that has lost against another one: it must have had no effect."""


class SmallPages(TableFaults):
    """Pages of one item, so that each read of several items reads several pages."""

    page_items = 1


class Process:
    """One of several processes with the same table, blobs and clock."""

    def __init__(self, name: str, shared: "Process | None" = None, writes: BetweenWrites | None = None) -> None:
        self.name = name
        self.clock: ManualClock = shared.clock if shared else ManualClock(at=BEGIN)
        new = FaultyTable(self.clock, faults=SmallPages()), MemoryBlobs()
        self.stored: tuple[Any, MemoryBlobs] = shared.stored if shared else new
        table, blobs = self.stored
        self.table: Any = writes.of(table) if writes else table
        self.blobs: Any = writes.of(blobs) if writes else blobs
        self.given: Any = shared.given if shared else None
        """What the subject has stored before."""

    def chat(self) -> StoreConversation:
        store = TaskStore(self.table, self.blobs, self.clock, lease_seconds=LEASE_SECONDS, cipher=CIPHER)
        return StoreConversation(store, self.clock, CONTEXT)


Act = Callable[[Process], Awaitable[Any]]


AGAIN = " too"


@dataclass(frozen=True)
class Subject:
    """What two processes do to one store at once."""

    given: Act
    acts: Mapping[str, Act]
    seen: Act
    """What a third process reads afterwards, without ids and times that differ between two runs."""
    others: Mapping[str, Act] = field(default_factory=dict)
    """Operations in several steps, which only the second process does."""

    def act(self, name: str) -> Act:
        """Return the operation with this name; a second process with the same operation has AGAIN behind its name."""
        return {**self.acts, **self.others}[name.removesuffix(AGAIN)]


# ── API keys, limits, secrets ─────────────────────────────────────────────────────────────────────────────────────────


async def nothing(_: Process) -> None:
    """Store nothing."""


def adds(principal: str) -> Act:
    async def adds(process: Process) -> None:
        made = process.clock.now().replace(microsecond=0)
        await ApiKeys(process.table, process.clock).add(KeyRecord("id", "hash", principal, made, "last"))

    return adds


async def revokes(process: Process) -> bool:
    return await ApiKeys(process.table, process.clock).revoke("id")


async def api_keys(process: Process) -> list[str]:
    return [key.principal for key in await ApiKeys(process.table, process.clock).all()]


def limits(process: Process) -> RateLimits:
    return RateLimits(process.table, process.clock)


def takes_stream(name: str, allowed: Limits) -> Act:
    def stream(process: Process) -> OpenStream:
        return OpenStream(name, "t", process.clock.now().replace(microsecond=0) + timedelta(seconds=60))

    return lambda process: limits(process).open_stream(OWNER, stream(process), allowed)


def leaves_stream(name: str) -> Act:
    async def leaves(process: Process) -> None:
        until = process.clock.now().replace(microsecond=0) + timedelta(seconds=60)
        await limits(process).close_stream(OWNER, OpenStream(name, "t", until))

    return leaves


def open_task(process: Process, name: str) -> OpenTask:
    return OpenTask(TaskKey(OWNER, name), process.clock.now().replace(microsecond=0))


def counts_task(name: str) -> Act:
    async def counts(process: Process) -> str:
        others = await limits(process).count_task(OWNER, open_task(process, name), most=1)
        return f"beside {len(others)}"

    return counts


def forgets_task(name: str) -> Act:
    return lambda process: limits(process).forget_tasks(OWNER, [open_task(process, name)])


async def takes_token(process: Process) -> bool:
    return await limits(process).take(OWNER, per_minute=1) == 0


async def counted(process: Process) -> list[Any]:
    found = [await process.table.get(key(OWNER)) for key in (keys.requests_key, keys.streams_key, keys.tasks_key)]
    return [sorted(item.get("streams", item.get("tasks", ["a bucket"]))) if item else None for item in found]


async def no_secrets(process: Process) -> None:
    process.given = set[bytes]()


async def signs(process: Process) -> None:
    """Use the secret of the page tokens, as each process does from its first use on."""
    process.given.add(await TaskList(process.table, process.clock).secret())


async def secrets_in_use(process: Process) -> int:
    await signs(process)
    return len(process.given)


# ── Turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def named(outcome: Any) -> Any:
    """Return what matters of a store's outcome."""
    lease = getattr(outcome, "lease", None)
    return type(outcome).__name__, lease.fence if lease else 0, getattr(outcome, "waiting", None)


def sends(message_id: str, *, later: bool = False, when_busy: WhenBusy = WhenBusy.ENQUEUE) -> Act:
    async def sends(process: Process) -> Any:
        new, holder = process.chat().message(message_id), None if later else process.name
        return named(await process.chat().store.create(new, holder=holder, when_busy=when_busy))

    return sends


def as_read(act: Callable[[StoreConversation, Head], Awaitable[Any]]) -> Act:
    """Return an act on the task as it was read. If the task has changed since, read it again, as the service does."""

    async def as_read(process: Process) -> Any:
        chat = process.chat()
        for _ in range(3):
            if (head := await chat.store.head(TASK)) is None:
                return "no task"
            with suppress(LeaseLost):
                return named(await act(chat, head))
        return "the task changes too fast"

    return as_read


def follows(message_id: str, when_busy: WhenBusy = WhenBusy.ENQUEUE) -> Act:
    async def follows(chat: StoreConversation, head: Head) -> Any:
        return await chat.store.follow_up(await chat.more(head, message_id), holder="holder-3", when_busy=when_busy)

    return as_read(follows)


cancels = as_read(lambda chat, head: chat.store.cancel(head, chat.canceled(head)))


async def begins(process: Process) -> Any:
    return named(await process.chat().store.begin(CONTEXT, holder=process.name))


async def claims_timer(process: Process) -> bool:
    return bool(await process.chat().store.claim(ExpiredTimer(CONTEXT, process.clock.now())))


def of_turn(act: Callable[[StoreConversation, TurnStarted], Awaitable[Any]]) -> Act:
    async def of_turn(process: Process) -> Any:
        return named(await act(process.chat(), process.given))

    return of_turn


async def tells(chat: StoreConversation, turn: TurnStarted) -> Any:
    return (await chat.store.append(turn.lease, turn.head, chat.says(turn.head))).generation


async def waits_for_a_time(chat: StoreConversation, turn: TurnStarted) -> Any:
    until = chat.clock.now() + timedelta(seconds=LEASE_SECONDS * 3)
    head, _ = await chat.store.suspend(
        turn.lease, turn.head, chat.says(turn.head), key="wait", until=until, event_key="wait"
    )
    return head.generation


async def looks(process: Process) -> Any:
    return await process.chat().store.look(CONTEXT, process.given, look_at=milliseconds(process.clock.now()) + 1000)


async def begins_early(process: Process) -> Any:
    return named(await process.chat().store.begin(CONTEXT, holder=process.name, ended_wait=process.given.fence))


async def conversation(process: Process) -> Any:
    """Return the states, logs and turns of the context's tasks, and whether a sweep would find it later."""
    chat = process.chat()
    tasks = {}
    for name in ("t-m-1", "t-m-2", "t-m-3"):
        log = await chat.store.log(chat.key(name))
        if log is not None:
            head = log.head
            tasks[name] = head.state, head.generation, head.fence, len(log.events), await chat.said(name)
    record = await process.table.get(keys.context_key(CONTEXT)) or {}
    turns = [record.get("running"), *record.get("waiting", ())]
    process.clock.move(LEASE_SECONDS + 1)
    return (
        tasks,
        [(turn["id"], turn["tries"]) for turn in turns if turn],
        {name: record.get(name) for name in ("fence", "holder", "interrupted")},
        await chat.is_expired(),
    )


async def running(process: Process) -> None:
    process.given = await process.chat().starts()


async def forsaken(process: Process) -> None:
    await running(process)
    process.clock.move(LEASE_SECONDS + 1)


async def suspended(process: Process) -> None:
    await running(process)
    until = process.clock.now() + timedelta(hours=1)
    chat, turn = process.chat(), process.given
    _, process.given = await chat.store.suspend(turn.lease, turn.head, chat.says(turn.head), key="wait", until=until)


async def asking(process: Process) -> None:
    await running(process)
    await process.chat().ends(process.given, INPUT_REQUIRED)


async def before_others(process: Process) -> None:
    await running(process)
    await process.chat().waits("m-2")


async def waiting(process: Process) -> None:
    await sends("m-1", later=True)(process)


async def ended(process: Process) -> None:
    await running(process)
    await process.chat().ends(process.given)


async def expired(process: Process) -> None:
    await running(process)
    process.clock.move(31 * 24 * 3600)


async def runs_turn(process: Process) -> Any:
    chat = process.chat()
    begun = await chat.store.create(chat.message("m-2"), holder=process.name)
    return named(await chat.ends(begun)) if isinstance(begun, TurnStarted) else named(begun)


async def before_more(process: Process) -> None:
    await running(process)
    await process.chat().queues("t-m-1", "f-0")


OTHERS = {"runs a turn": runs_turn, "sends m-2 for later": sends("m-2", later=True)}
CLIENTS = {
    "sends m-3": sends("m-3"),
    "sends m-3 for later": sends("m-3", later=True),
    "sends m-3 if free": sends("m-3", when_busy=WhenBusy.REJECT),
    "begins": begins,
    "claims the timer": claims_timer,
}
ON_TASK = {
    "follows up": follows("f-1"),
    "interrupts": follows("f-2", WhenBusy.INTERRUPT),
    "cancels": cancels,
}
TURNS = {
    **CLIENTS,
    **ON_TASK,
    "tells": of_turn(tells),
    "ends": of_turn(lambda chat, turn: chat.ends(turn, COMPLETED)),
    "ends, runs the next": of_turn(lambda chat, turn: chat.ends(turn, COMPLETED, run_next=True)),
    "hands over": of_turn(lambda chat, turn: chat.ends(turn, WORKING, run_next=True)),
    "asks": of_turn(lambda chat, turn: chat.ends(turn, INPUT_REQUIRED)),
    "pauses": of_turn(lambda chat, turn: chat.store.pause(turn.lease, made_progress=True)),
    "waits": of_turn(waits_for_a_time),
}
WAITS = {**CLIENTS, **ON_TASK, "looks": looks, "begins early": begins_early}


# ── Remote calls ──────────────────────────────────────────────────────────────────────────────────────────────────────


def remote_call(key: str, text: str = "weather?") -> RemoteCall:
    message = Message(message_id=f"derived-{key}-{text}", role=Role.ROLE_USER, parts=[Part(text=text)])
    return RemoteCall(key, "weather", message)


def calls(key: str, text: str) -> Act:
    async def calls(process: Process) -> str:
        begun = await process.chat().store.remote_calls.begin(process.given.lease, remote_call(key, text))
        return begun.message.message_id

    return calls


def reaches(remote_task: str) -> Act:
    return lambda process: process.chat().store.remote_calls.reached(TASK, "a", remote_task)


def settles(state: CallState) -> Act:
    return lambda process: process.chat().store.remote_calls.settle(TASK, "a", state)


async def reopens(process: Process) -> None:
    await process.chat().store.remote_calls.reopen(TASK, "a")


async def attempts(process: Process) -> list[bool]:
    store = process.chat().store.remote_calls
    return [await store.claim(call, until=call.due_at + 1000) for call in await store.to_cancel(TASK)]


def closes(state: CallState) -> Act:
    async def closes(process: Process) -> None:
        for call in await process.chat().store.remote_calls.to_cancel(TASK):
            await process.chat().store.remote_calls.close(call, state)

    return closes


async def notes_unreached(process: Process) -> None:
    await process.chat().store.note_unreached(CONTEXT, TASK, "weather")


async def calling(process: Process) -> None:
    await running(process)
    await process.chat().store.remote_calls.begin(process.given.lease, remote_call("a"))


async def canceled(process: Process) -> None:
    await calling(process)
    await cancels(process)


async def remote_calls(process: Process) -> Any:
    store = process.chat().store
    head = await process.chat().head("t-m-1")
    found = sorted(await store.remote_calls.of_task(TASK), key=lambda call: call.key)
    to_cancel = sorted(await store.remote_calls.to_cancel(TASK), key=lambda call: call.call.key)
    return (
        [(call.key, call.message.message_id, call.remote_task, call.state) for call in found],
        [(call.call.key, call.tries) for call in to_cancel],
        (head.state, head.calls, head.generation, head.fence),
    )


CALLS = {
    "calls b": calls("b", "one"),
    "calls b in other words": calls("b", "two"),
    "reaches a": reaches("r-1"),
    "has an answer": settles(CallState.ENDED),
    "has a question": settles(CallState.ASKS),
    "reopens": reopens,
    "cancels": cancels,
    "attempts": attempts,
    "gives up": closes(CallState.UNREACHED),
    "succeeds": closes(CallState.CANCELED),
    "notes": notes_unreached,
}


# ── Deliveries ────────────────────────────────────────────────────────────────────────────────────────────────────────


def configs(process: Process) -> PushConfigs:
    return PushConfigs(process.table, CIPHER, process.clock, lease_seconds=LEASE_SECONDS)


def registers(config_id: str, url: str = "https://hooks.test/a") -> Act:
    async def registers(process: Process) -> None:
        await configs(process).put(TASK, a_config(config_id, url=url))

    return registers


async def unregisters(process: Process) -> None:
    await configs(process).delete(TASK, "p-1")


def of_delivery(act: Callable[[PushConfigs, Any, Any], Awaitable[Any]]) -> Act:
    """Return an act on the config as this process reads it."""

    async def of_delivery(process: Process) -> Any:
        store, until = configs(process), process.clock.now() + timedelta(seconds=60)
        found = [each for each in await store.deliveries(TASK) if each.config_id == "p-1"]
        outcome = await act(store, found[0], until) if found else "is gone"
        return outcome if isinstance(outcome, str) else outcome is not None

    return of_delivery


def of_claim(act: Callable[[PushConfigs, Any, Any], Awaitable[Any]]) -> Act:
    """Return an act on the claim that one process has from before."""

    async def of_claim(process: Process) -> None:
        await act(configs(process), process.given[1], process.clock.now() + timedelta(seconds=60))

    return of_claim


async def forgets_subscribers(process: Process) -> None:
    head = await process.chat().store.head(TASK)
    if head is not None and not await configs(process).deliveries(TASK):
        await configs(process).clear_subscribers(head)


async def tells_subscribers(process: Process) -> Any:
    turn = process.given[0]
    return (await process.chat().store.append(turn.lease, turn.head, process.chat().says(turn.head))).generation


async def claimed(process: Process) -> None:
    turn = await process.chat().starts()
    await registers("p-1")(process)
    (delivery,) = await configs(process).deliveries(TASK)
    claim = await configs(process).claim(delivery, until=process.clock.now() + timedelta(seconds=60))
    process.given = turn, claim


async def deliveries(process: Process) -> Any:
    found = await configs(process).deliveries(TASK)
    head = await process.chat().head("t-m-1")
    urls = [config.url for config in await configs(process).all(TASK)]
    process.clock.move(10 * LEASE_SECONDS)
    timers = sorted((each.config_id, each.generation) for each in await expired_of(configs(process)))
    subscribed = head.push_events, bool(found) <= (head.push_events is not None)
    return [replace(each, revision="") for each in found], urls, timers, head.generation, subscribed


DELIVERIES = {
    "registers another": registers("p-2"),
    "registers anew": registers("p-1", "https://hooks.test/b"),
    "unregisters": unregisters,
    "forgets the subscribers": forgets_subscribers,
    "tells": tells_subscribers,
    "claims": of_delivery(lambda store, delivery, until: store.claim(delivery, until=until)),
    "redrives": of_delivery(lambda store, delivery, until: store.redrive(TASK, delivery.config_id)),
    "advances": of_claim(lambda store, claim, until: store.advance(claim, cursor=3, until=until)),
    "settles": of_claim(lambda store, claim, until: store.settle(claim, cursor=3)),
    "fails": of_claim(lambda store, claim, until: store.fail(claim, failure="x", next_at=until, due_at=until)),
    "gives up": of_claim(lambda store, claim, until: store.give_up(claim, cursor=3, failure="x", until=until)),
    "disables": of_claim(lambda store, claim, until: store.disable(claim, failure="x")),
}


# ── What frameworks store ─────────────────────────────────────────────────────────────────────────────────────────────

SESSION: dict[str, Any] = {"app_name": "app", "user_id": OWNER, "session_id": "c-1"}


def sessions(process: Process) -> TableSessions:
    return TableSessions(process.table, process.blobs, CIPHER, process.clock)


def creates(state: str) -> Act:
    async def creates(process: Process) -> None:
        await sessions(process).create_session(**SESSION, state={"own": state, "user:shared": state})

    return creates


def appends(text: str) -> Act:
    async def appends(process: Process) -> str:
        session = await sessions(process).get_session(**SESSION)
        if session is None:
            return SessionNotFoundError.__name__
        await sessions(process).append_event(session, said(text, state={"own": text, "user:shared": text}))
        return "appended"

    return appends


async def deletes_session(process: Process) -> None:
    await sessions(process).delete_session(**SESSION)


async def makes_session_anew(process: Process) -> None:
    """Delete the session, and create one of the same name and with as many events."""
    await deletes_session(process)
    await creates("anew")(process)
    await appends("one anew")(process)


async def with_session(process: Process) -> None:
    await creates("zero")(process)
    await appends("one")(process)


async def session(process: Process) -> Any:
    found = await sessions(process).get_session(**SESSION)
    shared = await sessions(process).get_user_state(app_name="app", user_id=OWNER)
    return (texts(found), found.state, shared) if found is not None else (None, shared)


def saves(text: str) -> Act:
    async def saves(process: Process) -> str:
        store = BlobArtifacts(process.blobs, process.clock)
        number = await store.save_artifact(**SESSION, filename="a", artifact=types.Part(text=text))
        return f"version {number}"

    return saves


def saves_again(text: str) -> Act:
    """Return an act that saves a version of which only the order counts: it may follow versions that are deleted."""

    async def saves_again(process: Process) -> None:
        await saves(text)(process)

    return saves_again


async def deletes_artifact(process: Process) -> None:
    await BlobArtifacts(process.blobs, process.clock).delete_artifact(**SESSION, filename="a")


async def many_versions(process: Process) -> None:
    for text in ("zero", "one", "two"):
        await saves(text)(process)


async def artifacts(process: Process) -> list[Any]:
    store = BlobArtifacts(process.blobs, process.clock)
    parts = [
        await store.load_artifact(**SESSION, filename="a", version=number)
        for number in await store.list_versions(**SESSION, filename="a")
    ]
    return [part and part.text for part in parts]


SCOPE = MemoryScope(OWNER, "echo")


def remembers(value: str | None, ttl: timedelta | None = None) -> Act:
    async def remembers(process: Process) -> None:
        await LongTermMemory(process.table, process.clock).write(SCOPE, MemoryWrite(("n",), "k", value, ttl))

    return remembers


async def with_memory(process: Process) -> None:
    await remembers("0", timedelta(seconds=60))(process)
    process.clock.move(30)


async def touches(process: Process) -> None:
    memory = LongTermMemory(process.table, process.clock)
    if (item := await memory.get(SCOPE, ("n",), "k")) is not None:
        await memory.touch(SCOPE, item)


async def remembered(process: Process) -> Any:
    item = await process.table.get(keys.memory_key(*SCOPE, ("n",), "k"))
    return (item["value"], item.get("expires")) if item else None


# ── Writes under a fence ──────────────────────────────────────────────────────────────────────────────────────────────


def fenced(act: Callable[[Process, Fence], Awaitable[Any]]) -> Act:
    """Return an act of the first holder's turn."""

    async def fenced(process: Process) -> None:
        await act(process, Fence(CONTEXT, process.given.lease.fence))

    return fenced


def checkpoint(number: int) -> Any:
    names = ("channel_values", "channel_versions", "versions_seen")
    return {"v": 1, "id": str(number), "ts": "", **{name: {} for name in names}}


async def puts_checkpoint(process: Process, fence: Fence) -> None:
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver = TableSaver(process.table, process.blobs, process.clock, fence=fence)
    await saver.aput(place, checkpoint(1), {"source": "loop", "step": 1, "parents": {}}, {})


async def puts_writes(process: Process, fence: Fence) -> None:
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    saver = TableSaver(process.table, process.blobs, process.clock, fence=fence)
    await saver.aput_writes(place, [("x", 1)], "node")


async def fenced_session(process: Process, fence: Fence) -> None:
    service = TableSessions(process.table, process.blobs, CIPHER, process.clock, fence=fence)
    await service.create_session(**SESSION)


async def fenced_memory(process: Process, fence: Fence) -> None:
    memory = LongTermMemory(process.table, process.clock, fence=fence)
    await memory.write(SCOPE, MemoryWrite(("n",), "k", "1"))


async def everything(process: Process) -> Any:
    """Return the keys of what the turns have stored, and the turn itself without its times."""
    table: Any = process.stored[0]
    return sorted((item["pk"].partition("#")[0], item["sk"]) for item in table.items()), await conversation(process)


FENCED: dict[str, Act] = {
    "puts a checkpoint": fenced(puts_checkpoint),
    "puts writes": fenced(puts_writes),
    "creates a session": fenced(fenced_session),
    "remembers": fenced(fenced_memory),
    "calls": calls("b", "one"),
    "takes over": begins,
}

SUBJECTS = {
    "API keys": Subject(
        nothing, {"adds": adds("alice"), "adds another": adds("mallory"), "revokes": revokes}, api_keys
    ),
    "stored API key": Subject(adds("alice"), {"adds another": adds("mallory"), "revokes": revokes}, api_keys),
    "streams of a caller": Subject(
        nothing,
        {
            "opens a": takes_stream("a", Limits(streams_per_owner=1)),
            "opens b": takes_stream("b", Limits(streams_per_owner=1)),
            "closes a": leaves_stream("a"),
        },
        counted,
    ),
    "full streams of a caller": Subject(
        takes_stream("a", Limits(streams_per_owner=1)),
        {"opens b": takes_stream("b", Limits(streams_per_owner=1)), "closes a": leaves_stream("a")},
        counted,
    ),
    "open tasks": Subject(nothing, {"counts a": counts_task("a"), "counts b": counts_task("b")}, counted),
    "full open tasks": Subject(
        counts_task("a"), {"counts b": counts_task("b"), "forgets a": forgets_task("a")}, counted
    ),
    "requests": Subject(nothing, {"takes": takes_token}, counted),
    "secret": Subject(no_secrets, {"signs": signs}, secrets_in_use),
    "new context": Subject(nothing, CLIENTS, conversation, OTHERS),
    "free context": Subject(ended, CLIENTS, conversation, OTHERS),
    "expired context": Subject(expired, CLIENTS, conversation, OTHERS),
    "waiting turn": Subject(waiting, {**CLIENTS, **ON_TASK}, conversation),
    "running turn": Subject(running, TURNS, conversation),
    "running turn before another": Subject(before_others, TURNS, conversation),
    "running turn before a message": Subject(before_more, TURNS, conversation),
    "forsaken turn": Subject(forsaken, TURNS, conversation),
    "suspended turn": Subject(suspended, WAITS, conversation),
    "question": Subject(asking, {**CLIENTS, **ON_TASK}, conversation),
    "remote calls": Subject(calling, CALLS, remote_calls),
    "canceled remote calls": Subject(canceled, CALLS, remote_calls),
    "deliveries": Subject(claimed, DELIVERIES, deliveries),
    "no session": Subject(nothing, {"creates": creates("one"), "creates another": creates("two")}, session),
    "session": Subject(
        with_session,
        {"appends": appends("two"), "appends another": appends("three"), "deletes": deletes_session},
        session,
        {"makes it anew": makes_session_anew},
    ),
    "artifacts": Subject(nothing, {"saves a": saves("a"), "saves b": saves("b")}, artifacts),
    "stored artifact": Subject(
        many_versions,
        {"saves a": saves_again("a"), "saves b": saves_again("b"), "deletes": deletes_artifact},
        artifacts,
    ),
    "memory": Subject(
        with_memory,
        {
            "writes": remembers("1"),
            "writes for a while": remembers("2", timedelta(seconds=10)),
            "deletes": remembers(None),
            "touches": touches,
        },
        remembered,
    ),
    "fenced writes": Subject(forsaken, FENCED, everything),
}


def log_of(task_id: str, *, after: int = 0, whole: bool = False) -> Act:
    async def log_of(process: Process) -> Any:
        store = process.chat().store
        read = store.every_event if whole else store.log
        log = await read(TaskKey(OWNER, task_id), after=after)
        return log and (log.head.generation, log.head.state, [each.generation for each in log.events])

    return log_of


async def own_session(process: Process) -> Any:
    found = await sessions(process).get_session(**SESSION)
    return (texts(found), found.state["own"]) if found is not None else None


LOGS = {
    "log": log_of("t-m-1"),
    "log after 1": log_of("t-m-1", after=1),
    "log after 2": log_of("t-m-1", after=2),
    "every event": log_of("t-m-1", whole=True),
    "new log": log_of("t-m-3"),
}
READERS: dict[str, Mapping[str, Act]] = {
    "running turn": LOGS,
    "running turn before a message": LOGS,
    "question": LOGS,
    "no session": {"session": own_session},
    "session": {"session": own_session},
}


# ── Jobs of several writes ────────────────────────────────────────────────────────────────────────────────────────────

LARGE = "x" * (LARGE_BYTES + 1)
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


async def sends_large(process: Process) -> Any:
    """Send a message whose content is a blob. A client that gets no answer sends it again, and the task gets another id."""
    new = process.chat().message("m-3", LARGE, task_id="t-m-3" if process.name != "again" else "t-again")
    return named(await process.chat().store.create(new, holder=process.name))


async def sent(process: Process) -> Any:
    """Return the texts of the tasks with the message."""
    logs = [await process.chat().store.log(TaskKey(OWNER, name)) for name in ("t-m-3", "t-again")]
    return [len(folded.history[0].parts[0].text) for log in logs if log and (folded := projection.fold(log.events))]


async def calls_large(process: Process) -> None:
    await process.chat().store.remote_calls.begin(process.given.lease, remote_call("b", LARGE))


async def many_events(process: Process) -> None:
    await with_session(process)
    await appends("two")(process)


async def appends_shared(process: Process) -> None:
    """Append an event with more shared values than one transaction holds. Before the event, readers may see some."""
    session = await sessions(process).get_session(**SESSION)
    assert session is not None
    if "two" not in texts(session):
        state = {"own": "two", **{f"user:{name}": LARGE for name in "abc"}}
        await sessions(process).append_event(session, said("two", state=state))


async def many_checkpoints(process: Process) -> None:
    saver, place = TableSaver(process.table, process.blobs, process.clock), PLACE
    for number in range(1, 4):
        place = await saver.aput(place, checkpoint(number), {"source": "loop", "step": number, "parents": {}}, {})


async def forgets_thread(process: Process) -> None:
    await TableSaver(process.table, process.blobs, process.clock).adelete_thread("t")


async def newest_checkpoint(process: Process) -> str | None:
    found = await TableSaver(process.table, process.blobs, process.clock).aget_tuple(PLACE)
    return found.checkpoint["id"] if found is not None else None


async def newest_artifact(process: Process) -> str | None:
    part = await BlobArtifacts(process.blobs, process.clock).load_artifact(**SESSION, filename="a")
    return part.text if part is not None else None


async def puts_large_checkpoint(process: Process) -> None:
    saver = TableSaver(process.table, process.blobs, process.clock)
    place: Any = {"configurable": {**PLACE["configurable"], "checkpoint_id": "3"}}
    large: Any = {**checkpoint(4), "channel_values": {"x": random.Random(1).randbytes(2 * LARGE_BYTES)}}
    await saver.aput(place, large, {"source": "loop", "step": 4, "parents": {}}, {})


JOBS = {
    "sends a large message": Subject(nothing, {"sends a large message": sends_large}, sent),
    "calls with a large message": Subject(running, {"calls with a large message": calls_large}, remote_calls),
    "deletes a session": Subject(many_events, {"deletes a session": deletes_session}, own_session),
    "appends many values": Subject(with_session, {"appends many values": appends_shared}, own_session),
    "deletes an artifact": Subject(many_versions, {"deletes an artifact": deletes_artifact}, newest_artifact),
    "deletes a thread": Subject(many_checkpoints, {"deletes a thread": forgets_thread}, newest_checkpoint),
    "puts a large checkpoint": Subject(
        many_checkpoints, {"puts a large checkpoint": puts_large_checkpoint}, newest_checkpoint
    ),
}
