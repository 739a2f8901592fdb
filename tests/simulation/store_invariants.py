"""Invariants of stored tasks: refusals, lists, limits, idempotency keys, expiry, retries."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.records import StoppedBy
from aion_core.engine.runner.failures import LAST_STOP
from aion_core.errors import (
    ClientError,
    ContextBusy,
    StoreCorrupt,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
    TooManyRequests,
)
from aion_core.protocol.types import Task
from aion_core.table.keys import ContextKey, TaskKey
from tests.simulation.agents import text_of
from tests.simulation.facts import ENDS, expires_after, folded, happened, has_expired, texts_of
from tests.simulation.faults import Fault
from tests.simulation.history import Hold
from tests.simulation.loop import BEGINNING

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

TRIED_AGAIN = {fault.value for fault in (Fault.ANSWER_LOST, Fault.CONFLICT, Fault.THROTTLED, Fault.THROTTLED_REASON)}
WRITES_OF_TURNS = (
    "append.transact",
    "finish.transact",
    "begin.transact",
    "create.transact",
    "renew.write_blocking",
    "holds.get_blocking",
)
RELEASED = ("pause", "suspend")
"""Writes by which the holder of a lease gives its turn back before the turn's end."""

SLACK_SECONDS = 700.0
"""Longest delay of a task's expiry, by a retry or by a wrong clock."""

SKEW_SECONDS = 5.0
"""Greatest error of a process's clock, unless a fault moves it."""

RACE_SECONDS = 10.0
"""Longest time between the reads and the commit of a lease."""


def i20_refusal_has_a_cause(world: "SimWorld") -> Iterator[str]:
    for asking in world.history.askings:
        error, key = asking.answer, TaskKey(asking.owner, asking.task_id)
        if not isinstance(error, ClientError) or asking.answered is None:
            continue
        entries = world.history.log.get(key)
        then = [entry.state for entry in entries or () if entry.at <= asking.answered]
        match error:
            case TaskNotFound():
                just = entries is None or has_expired(world, key, asking.answered)
            case TooManyRequests():
                just = world.deployment.open_tasks is not None
            case TaskFinished() | TaskNotCancelable():
                just = bool(then) and then[-1] in ENDS
            case ContextBusy() if asking.what in ("send", "stream"):
                just = world.deployment.when_busy is not WhenBusy.ENQUEUE
            case _:
                just = False
        if not just:
            yield f"{asking.client} was refused ({asking.what} {asking.message_id} {asking.task_id}): {error!r}"


def i21_list_has_the_owners_tasks(world: "SimWorld") -> Iterator[str]:
    """Report a task that is listed twice or to another owner, and a task missing after the index has caught up."""
    stale = happened(world, Fault.STALE)
    for asking in world.history.askings:
        if not asking.what.startswith("list") or not isinstance(asking.answer, list):
            continue
        ids = [task.id for task in asking.answer]
        own = {key.task_id for key in world.history.log if key.owner == asking.owner}
        own = {key.task_id for key in world.history.log if key.task_id in own and _is_in(world, key, asking.context)}
        twice = {id_ for id_ in ids if ids.count(id_) > 1}
        # Accept a repeated task if its status may have moved back in time by a slow clock, because a later page then
        # repeats the task.
        moved = {key.task_id for key, entries in world.history.log.items() if any(e.at > asking.at for e in entries)}
        if twice - moved and not stale:
            yield f"{asking.client} was listed a task twice: {ids}."
        if not set(ids) <= own:
            yield f"{asking.client} was listed what is not its own: {set(ids) - own}."
        if asking.what == "list all" and not stale and own - set(ids) - world.history.unreadable:
            yield f"{asking.client} was not listed {own - set(ids)}."


def i22_open_tasks_do_not_exceed_limit(world: "SimWorld") -> Iterator[str]:
    most = world.deployment.open_tasks
    if most is None or world.history.troubled:
        return
    starts = [(entries[0].at, key) for key, entries in world.history.log.items() if entries]
    for at, key in starts:
        open_ = [
            other
            for begun, other in starts
            if other.owner == key.owner
            and begun <= at
            and not any(entry.at <= at and entry.state in ENDS for entry in world.history.log[other])
        ]
        if len(open_) > most:
            yield f"{key.owner} had {len(open_)} open tasks at {at:.3f} s, {most} were allowed."


def i24_idempotency_key_names_one_task(world: "SimWorld") -> Iterator[str]:
    tasks: dict[tuple[str, str], set[str]] = {}
    for asking in world.history.askings:
        if asking.key and isinstance(asking.answer, Task):
            tasks.setdefault((asking.owner, asking.key), set()).add(asking.answer.id)
    for (owner, key), ids in tasks.items():
        if len(ids) > 1:
            yield f"The key {key} of {owner} made {sorted(ids)}."


def i25_agent_reads_history_of_its_context(world: "SimWorld") -> Iterator[str]:
    for context, message_id, ids in world.history.recalled:
        own = {
            message.message_id
            for key in world.history.log
            if world.history.context_of[key] == context and (task := folded(world, key)) is not None
            for message in (*task.history, task.status.message)
        }
        if len(set(ids)) != len(ids):
            yield f"The agent recalled a message twice when it answered {message_id}: {ids}."
        if not set(ids) <= own:
            yield f"The agent recalled messages of another context when it answered {message_id}: {set(ids) - own}."
        if message_id not in ids:
            yield f"The agent did not recall {message_id}, which it answered."


def i26_record_is_unreadable_only_if_destroyed(world: "SimWorld") -> Iterator[str]:
    if world.history.unreadable:
        return
    for answer in [asking.answer for asking in world.history.askings]:
        if isinstance(answer, StoreCorrupt):
            yield f"A client was answered by {answer!r}."


def _is_in(world: "SimWorld", key: TaskKey, context: str) -> bool:
    return not context or world.history.context_of[key].context_id == context


def i27_retried_write_costs_no_turn(world: "SimWorld") -> Iterator[str]:
    """Report a turn that began twice although no process died, and at most two requests failed or lost a response."""
    faults = world.history.faults
    single = [(fault, kind) for _, fault, kind, _ in faults if fault in TRIED_AGAIN and kind in WRITES_OF_TURNS]
    if world.history.deaths or not 0 < len(faults) <= 2 or len(single) < len(faults):
        return
    for hold in world.history.holds:
        texts = texts_of(world, TaskKey(hold.context.owner, hold.task_id))
        if hold.tries > 1 and not texts & {"hangs", "deaf", "lumps"}:
            yield f"{hold.turn} was begun {hold.tries} times, for {single}."


def i34_progress_of_dead_holder_resets_tries(world: "SimWorld") -> Iterator[str]:
    """Report a wrong number of tries after a dead holder: 2 if the holder stored a step, otherwise one more."""
    stored = [(did.context, did.fence, did.at) for did in world.history.agent if did.what == "finished" and did.current]
    paused = {(write.context, write.fence) for write in world.history.writes if write.how in RELEASED}
    newest: dict[tuple[ContextKey, str], Hold] = {}
    for hold in world.history.holds:
        before = newest.get((hold.context, hold.turn))
        newest[hold.context, hold.turn] = hold
        if before is None or (before.context, before.fence) in paused:
            continue
        times = [at for context, fence, at in stored if (context, fence) == (before.context, before.fence)]
        if any(at > hold.at - RACE_SECONDS for at in times):
            continue  # skip: the new lease holder may have read the context before this write
        if hold.tries != (2 if times else before.tries + 1):
            yield f"{hold.turn}: {hold.tries} tries after {before.tries} and {len(times)} steps of a dead holder."


def i35_failure_names_stop_of_last_try(world: "SimWorld") -> Iterator[str]:
    """Report a failed task whose error names another cause than the stop of its last try."""
    paused = {(write.context, write.fence) for write in world.history.writes if write.how in RELEASED}
    for key in world.history.log:
        task = folded(world, key)
        reason = text_of(task.status.message) if task is not None else ""
        named = [cause for cause, sentence in LAST_STOP.items() if sentence in reason]
        holds = [hold for hold in world.history.holds if hold.task_id == key.task_id]
        # Leave out the last try: it only recorded the failure, whose reason names why the try before it stopped.
        tried = [hold for hold in holds if hold.turn == holds[-1].turn and hold.tries < holds[-1].tries]
        if not named or not tried:
            continue
        last = tried[-1]
        if (named == [StoppedBy.WORKER]) is ((last.context, last.fence) in paused):
            yield f"{key.task_id} failed by {named}, after the lease {last.fence} of {last.process}."
        if named == [StoppedBy.STORE] and not world.history.faults:
            yield f"{key.task_id} failed by its store, and no request had failed."


def i32_expired_task_is_gone(world: "SimWorld") -> Iterator[str]:
    for asking in world.history.askings:
        if isinstance(asking.answer, Task) and asking.what == "get":
            ends = expires_after(world, TaskKey(asking.owner, asking.answer.id))
            if ends is not None and asking.at > ends + SLACK_SECONDS:
                yield f"{asking.answer.id} was answered at {asking.at:.0f} s; it had expired at {ends:.0f} s."


def i36_suspended_turn_resumes_at_its_time(world: "SimWorld") -> Iterator[str]:
    """Report a suspended turn that began before its time, or not as its first try, or late although nothing went wrong."""
    suspended = {(write.context, write.fence) for write in world.history.writes if write.how == "suspend"}
    until: dict[tuple[ContextKey, int], float] = {}
    for did in world.history.agent:
        if did.what.startswith("waits ") and (did.context, did.fence) in suspended:
            until[did.context, did.fence] = float(did.what.partition(" ")[2]) / 1000 - BEGINNING.timestamp()
    for (context, fence), time in until.items():
        after = [hold for hold in world.history.holds if hold.context == context and hold.fence > fence]
        resumed = min(after, key=lambda hold: hold.fence, default=None)
        before = next(hold for hold in world.history.holds if (hold.context, hold.fence) == (context, fence))
        if resumed is None or resumed.turn != before.turn:
            continue
        if resumed.at < time - 2 * SKEW_SECONDS and not world.skewed:
            yield f"{resumed.turn} waits until {time:.1f} s, and began at {resumed.at:.1f} s."
        if resumed.tries != 1 and not world.history.faults:
            yield f"{resumed.turn} resumed after its wait as its try {resumed.tries}."
        if not world.history.faults and resumed.at > time + 2 * SKEW_SECONDS + 1:
            yield f"{resumed.turn} waits until {time:.1f} s, and began {resumed.at - time:.1f} s later."


STORE_CHECKS: tuple[Callable[["SimWorld"], Iterator[str]], ...] = (
    i20_refusal_has_a_cause,
    i21_list_has_the_owners_tasks,
    i22_open_tasks_do_not_exceed_limit,
    i24_idempotency_key_names_one_task,
    i25_agent_reads_history_of_its_context,
    i26_record_is_unreadable_only_if_destroyed,
    i27_retried_write_costs_no_turn,
    i32_expired_task_is_gone,
    i34_progress_of_dead_holder_resets_tries,
    i35_failure_names_stop_of_last_try,
    i36_suspended_turn_resumes_at_its_time,
)
