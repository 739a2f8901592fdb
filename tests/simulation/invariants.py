"""Invariants of tasks, turns and contexts under every fault, each a function of the history."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from aion_core.delegation.durable_call import SILENCE_SECONDS
from aion_core.engine.task import projection
from aion_core.errors import AionError, StoreCorrupt
from aion_core.protocol.types import Message, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from aion_core.table.keys import TaskKey
from tests.simulation.agents import PROGRAMS, answer_to, text_of
from tests.simulation.facts import ASKS, ENDS, folded, happened, has_expired, texts_of
from tests.simulation.faults import DEADLY, Fault
from tests.simulation.history import Entry, Hold, plain, users_messages
from tests.simulation.loop import at_once
from tests.simulation.push_invariants import PUSH_CHECKS
from tests.simulation.reader_invariants import READER_CHECKS
from tests.simulation.remote_invariants import REMOTE_CHECKS
from tests.simulation.store_invariants import STORE_CHECKS

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

S, W = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
FOLLOWS = {S: {W} | ENDS, W: {W} | ASKS | ENDS, **{state: {W} | ENDS for state in ASKS}}
"""Allowed state transitions; written again here, so that an error of the engine is visible."""

LEASE_SECONDS = 30.0
"""Duration of a lease in every deployment."""

STOP_SECONDS = 5.0
"""Longest run of an agent after a cancel: its lease is checked once a second, and its stop takes up to two seconds."""


def violations(world: "SimWorld") -> list[str]:
    """Check all invariants after a schedule; return a sentence for each violation."""
    found = [*world.history.surprises]
    for check in CHECKS:
        name = check.__name__.split("_")[0].upper()
        try:
            found += [f"{name}: {sentence}" for sentence in check(world)]
        except (AionError, RuntimeError) as error:
            # Report the error instead of raising it. A store that has to wait before a retry fails here too, because
            # the simulated time has ended.
            found.append(f"{name}: The check cannot read the store: {error!r}")
    return found


def i1_accepted_message_is_not_lost(world: "SimWorld") -> Iterator[str]:
    for key, entries in world.history.log.items():
        if entries and entries[-1].state not in ENDS | ASKS:
            yield f"{key.task_id} is {TaskState.Name(entries[-1].state)}, and nobody is at work on it."
    for asking in world.history.askings:
        if asking.what == "send" and isinstance(asking.answer, Task):
            key = TaskKey(asking.owner, asking.answer.id)
            task = folded(world, key)
            if task is None:
                yield f"{asking.client} received {key.task_id}, but no such task is stored."
            elif asking.message_id not in {message.message_id for message in task.history}:
                # Accept two reasons for a missing message: the queued messages of a canceled task are dropped, and the
                # queued messages of an interrupted task stay queued.
                waits = task.status.state in ASKS and asking.message_id in world.watch.waiting_messages(key)
                if task.status.state != TaskState.TASK_STATE_CANCELED and not waits:
                    yield f"{asking.message_id} of {asking.client} was taken, and is not in {key.task_id}."


def i2_message_is_processed_once(world: "SimWorld") -> Iterator[str]:
    told: Counter[tuple[str, str, str]] = Counter()
    for key in world.history.log:
        task = folded(world, key)
        for message in users_messages(task) if task else ():
            # Count per task instead of per context if items expire: after the expiry of its message key, a repeated
            # message may start another task.
            place = key.task_id if world.forgets else world.history.context_of[key].context_id
            told[key.owner, place, message.message_id] += 1
    for (owner, context, message_id), times in told.items():
        if times > 1:
            yield f"{message_id} of {owner} stands {times} times in the context {context}."
    turns: dict[tuple[str, str, str], set[str]] = {}
    for did in world.history.agent:
        if did.what == "given":
            place = did.task_id if world.forgets else did.context.context_id
            turns.setdefault((did.context.owner, place, did.message_id), set()).add(did.turn)
    for (_, _, message_id), of_it in turns.items():
        if len(of_it) > 1:
            yield f"{message_id} was answered in {len(of_it)} turns."


def i3_state_transitions_are_allowed(world: "SimWorld") -> Iterator[str]:
    for key, entries in world.history.log.items():
        for before, after in pairwise(entries):
            if hasattr(after.numbered.event, "status") and after.state not in FOLLOWS.get(before.state, set()):
                yield f"{key.task_id} went from {TaskState.Name(before.state)} to {TaskState.Name(after.state)}."


def i4_terminal_event_is_the_last(world: "SimWorld") -> Iterator[str]:
    for key, entries in world.history.log.items():
        ends = [entry.numbered.generation for entry in entries if entry.state in ENDS]
        if ends and ends[0] != entries[-1].numbered.generation:
            yield f"{key.task_id} ended with event {ends[0]}, and went on to {entries[-1].numbered.generation}."
        try:
            log = at_once(world.log.log(key))
        except StoreCorrupt as error:
            if key.task_id not in world.history.unreadable:
                yield f"{key.task_id} cannot be read: {error}"
            continue
        except RuntimeError:
            # Accept a missing event if clocks are wrong and items expire, because an event written with a slow clock
            # expires early. `at_once` raises RuntimeError if the store waits for a missing event.
            if not (world.skewed and world.forgets):
                yield f"An event of {key.task_id} is missing."
            continue
        if log is None:
            if not world.forgets:
                yield f"{key.task_id} is gone."
            continue
        kept = [plain(numbered.event) for numbered in log.events]
        base = log.events[0].generation - 1 if log.events else 0
        if not base and kept != [entry.bytes for entry in entries]:
            yield f"The log of {key.task_id} is not what was recorded."
        if base and plain(projection.fold(log.events)) != plain(projection.fold(e.numbered for e in entries)):
            yield f"The snapshot of {key.task_id} is not what its events add up to."


def i5_events_are_numbered_without_gap(world: "SimWorld") -> Iterator[str]:
    for key, entries in world.history.log.items():
        numbers = [entry.numbered.generation for entry in entries]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"The events of {key.task_id} are numbered {numbers}."
        head = at_once(world.log.head(key))
        if head is None and world.forgets:
            continue
        if head.generation != len(numbers) or (entries and head.state != entries[-1].state):
            yield f"The head of {key.task_id} does not say what its log does."
        repeated = [
            key for key, times in Counter(e.numbered.key for e in entries if e.numbered.key).items() if times > 1
        ]
        if repeated:
            yield f"{key.task_id} holds twice what was emitted once: {repeated}."


def i10_context_has_one_lease_holder(world: "SimWorld") -> Iterator[str]:
    for write in world.history.writes:
        if write.fence < write.newest:
            yield f"{write.how} of {write.process} was taken under the fence {write.fence}, not {write.newest}."
    for did in world.history.agent:
        if did.what == "finished" and not did.current:
            yield f"A checkpoint of {did.process} was taken under the fence {did.fence}, which holds no more."
    for hold in world.history.holds:
        for key, entries in world.history.log.items():
            if key.task_id == hold.task_id or world.history.context_of[key] != hold.context:
                continue
            before = [entry for entry in entries if entry.at < hold.at]
            if before and before[-1].state in ASKS and not has_expired(world, key, hold.at):
                yield f"The turn {hold.turn} was begun while {key.task_id} waited for its answer."
    slack = 1200.0 if world.skewed else 10.5
    by_context: dict[object, list[Hold]] = {}
    for hold in world.history.holds:
        earlier = by_context.setdefault(hold.context, [])
        for other in earlier:
            if hold.at < other.until - slack and (other.over is None or other.over > hold.at):
                yield f"{hold.process} took the lease {hold.fence} while {other.process} held {other.fence} and lived."
            if hold.fence <= other.fence:
                yield f"The fence {hold.fence} was given after {other.fence}."
        earlier.append(hold)


def i11_finished_step_is_not_repeated(world: "SimWorld") -> Iterator[str]:
    finished: set[tuple[str, int]] = set()
    for did in world.history.agent:
        if did.what == "finished":
            finished.add((did.turn, did.step))
        if did.what in ("effect", "began") and did.current and (did.turn, did.step) in finished:
            yield f"Step {did.step} of {did.turn} was done again ({did.what}) after its checkpoint."
    for did in world.history.agent:
        if not did.what.startswith("recorded ") or (did.turn, did.step) not in finished:
            continue
        key = did.what.removeprefix("recorded ")
        entries = world.history.log.get(TaskKey(did.context.owner, did.task_id))
        if entries is None and world.forgets:
            continue  # skip: a process frozen for longer than the retention created the task expired
        assert entries is not None
        if did.current and key not in {entry.numbered.key for entry in entries}:
            yield f"{key} was emitted by a step that is finished, and is not in the log of {did.task_id}."


def i11b_step_begins_under_lease(world: "SimWorld") -> Iterator[str]:
    """A process must not begin a step after the end of its lease by its clock, unless it froze right after the check."""
    slack = 1200.0 if world.skewed else 0.01
    skews = {process.name: process.clock.skew for process in world.processes}
    until = {(hold.context, hold.fence): hold.until for hold in world.history.holds}
    checked: dict[tuple[str, str, int, int], float] = {}
    for did in world.history.agent:
        step = (did.process, did.turn, did.fence, did.step)
        if did.what == "checked":
            checked[step] = did.at
        if did.what == "began" and checked[step] == did.at and (did.context, did.fence) in until:
            late = did.at + skews[did.process] - until[did.context, did.fence]
            if late > slack:
                yield f"{did.process} began step {did.step} of {did.turn} {late:.1f} s after its lease."


def i12_canceled_task_stops(world: "SimWorld") -> Iterator[str]:
    for asking in world.history.askings:
        if asking.what != "cancel" or not isinstance(asking.answer, Task) or asking.answered is None:
            continue
        key = TaskKey(asking.owner, asking.answer.id)
        if asking.answer.status.state != TaskState.TASK_STATE_CANCELED:
            yield f"The cancel of {key.task_id} was answered by {TaskState.Name(asking.answer.status.state)}."
        after = [entry for entry in world.history.log[key] if entry.at > asking.answered]
        if after:
            yield f"{key.task_id} was canceled at {asking.answered:.3f} s, and recorded {len(after)} events after it."
        for did in world.history.agent:
            late = did.at - asking.answered
            if did.task_id == key.task_id and did.what in ("effect", "began", "finished") and late > STOP_SECONDS:
                troubled = did.process in world.history.troubled
                text = texts_of(world, key)
                if not troubled and not text & {"stubborn", "blocks"} and not world.unavailable_until:
                    yield f"The agent of {key.task_id} was at work {late:.1f} s after its cancel was answered."


def i13_owners_are_isolated(world: "SimWorld") -> Iterator[str]:
    for asking in world.history.askings:
        answer = asking.answer
        if isinstance(answer, Task) and TaskKey(asking.owner, answer.id) not in world.history.log:
            yield f"{asking.owner} was given {answer.id}, which is another's."
        if asking.task_id and isinstance(answer, Task) and answer.id != asking.task_id:
            yield f"{asking.owner} asked for {asking.task_id} and was given {answer.id}."
        if asking.context and isinstance(answer, Task) and answer.context_id != asking.context:
            yield f"{asking.owner} wrote in {asking.context} and was given a task of {answer.context_id}."
    for hearing in world.history.hearings:
        is_message = any(isinstance(what, Message) for _, _, what in hearing.heard)
        if hearing.heard and not is_message and TaskKey(hearing.owner, hearing.task_id) not in world.history.log:
            yield f"{hearing.owner} received {hearing.task_id} of another owner."


def i14_no_work_is_left(world: "SimWorld") -> Iterator[str]:
    yield from (f"{owed}." for owed in world.promised())
    if world.queue.open():
        yield f"Wake-up messages are left: {[letter.wake_up for letter in world.queue.open()]}."
    for process in world.processes:
        if process.busy:
            yield f"{process.name} is still at work."
    if world.left and not any(
        did.what == "given" and "stubborn" in texts_of(world, TaskKey(did.context.owner, did.task_id))
        for did in world.history.agent
    ):
        yield f"{len(world.left)} tasks still run in processes that rest: {world.left[:2]}."
    if world.queue.dead and not happened(world, Fault.HANDLER_FAILS, Fault.BURST, Fault.POISONED, Fault.DOUBLED):
        yield f"Wake-up messages are in the dead-letter queue: {[letter.wake_up for letter in world.queue.dead]}."


def status_of(entry: Entry) -> TaskStatus:
    """Return the status of a task or of its update."""
    event = entry.numbered.event
    assert isinstance(event, Task | TaskStatusUpdateEvent)
    return event.status


def i15_failure_has_a_reason(world: "SimWorld") -> Iterator[str]:
    for key, entries in world.history.log.items():
        if not entries or entries[-1].state != TaskState.TASK_STATE_FAILED:
            continue
        status = status_of(entries[-1])
        reason = text_of(status.message)
        if not reason:
            yield f"{key.task_id} failed without a reason."
        if "Traceback" in reason or "secret" in reason:
            yield f"{key.task_id} says too much: {reason}"
        # A task fails after three tries of a turn without progress. One fault uses up at most two tries, and an
        # invocation of one minute uses up one try of a turn with longer steps.
        long_steps = texts_of(world, key) & {"hangs", "deaf", "lumps"}
        may_use_up_tries = len(world.history.faults) + bool(long_steps) * world.history.short_invocations > 1
        if key.task_id in world.history.unreadable:
            continue
        fails = any(PROGRAMS[text].fails for text in texts_of(world, key) if text in PROGRAMS)
        if not fails and "begun" in reason and not may_use_up_tries:
            yield f"{key.task_id} failed ({reason}), and there was too little that went wrong."
        unreached = "could not be reached" in reason and world.remote.down[1] > 0
        unreached = unreached or ("not answered in time" in reason and world.remote.is_gone)
        if not fails and "begun" not in reason and not texts_of(world, key) & {"sour"} and not unreached:
            yield f"{key.task_id} failed, and its agent did not: {reason}"


def i16_work_ends_in_time(world: "SimWorld") -> Iterator[str]:
    if world.history.work_queue > 800:
        yield f"{world.history.work_queue} wake-up messages were enqueued."
    disturbed = max(
        [at + _lasts(world, fault, number) for number, (at, fault, _, _) in enumerate(world.history.faults)]
        + [asking.at for asking in world.history.askings if asking.what in ("send", "stream", "cancel")]
    )
    disturbed = max(disturbed, world.unavailable_until, world.backlog_until)
    tries = 2 + len(world.history.faults)
    for key, at in world.history.resting.items():
        work = sum(
            world.seconds_of(other)
            for other in world.history.log
            if world.history.context_of[other] == world.history.context_of[key]
        )
        texts = set().union(*(texts_of(world, other) for other in world.history.log))
        most = (
            disturbed + tries * work + 150.0 * tries + (3700.0 if texts & {"hangs", "deaf", "long", "lumps"} else 0.0)
        )
        # A lost callback is replaced by a look after a quarter, and then after half an hour.
        most += 2700.0 if world.deployment.calls_back else 0.0
        most += (world.deployment.patience or 0.0) + SILENCE_SECONDS if world.remote.is_gone else 0.0
        most += 1400.0 * len(world.history.faults) if world.skewed else 0.0
        if at > most:
            yield f"{key.task_id} came to rest at {at:.0f} s, when {most:.0f} s was long enough."


def i16b_dead_process_is_replaced_soon(world: "SimWorld") -> Iterator[str]:
    """Report a dead process's turn resumed too late: after 45 s if a wake-up message was enqueued, else 122 s."""
    faults = [(fault, kind) for _, fault, kind, _ in world.history.faults]
    for write in world.history.writes:
        if write.how == "pause" and not faults:
            later = [one.at for one in world.history.holds if one.context == write.context and one.at > write.at]
            if not later or min(later) > write.at + 5.0:
                yield f"{write.process} handed a turn on at {write.at:.1f} s, and nobody took it up for 5 s."
    if any(fault not in DEADLY for fault, _ in faults):
        return
    deaths = sorted(world.history.deaths.values())
    for hold in world.history.holds:
        died = world.history.deaths.get(hold.process)
        if died is None or died < hold.at or (hold.over is not None and hold.over <= died):
            continue
        later = [one.at for one in world.history.holds if one.context == hold.context and one.fence > hold.fence]
        ended = [hold.over] if hold.over is not None else []
        followed = min([*later, *ended], default=None)
        watched = died > hold.at + world.deployment.watch_seconds + 0.1 and len(deaths) == 1
        # Allow more than the lease, because the clocks of two processes differ by up to ten seconds.
        most = LEASE_SECONDS + 15.0 if watched else 122.0 * len(deaths)
        if followed is None or followed > died + most:
            yield f"{hold.process} died at {died:.1f} s; its turn was begun again at {followed}."


def i18_completed_task_has_agents_answer(world: "SimWorld") -> Iterator[str]:
    """Report a completed task without the last answer of its agent."""
    for key, entries in world.history.log.items():
        if not entries or entries[-1].state != TaskState.TASK_STATE_COMPLETED:
            continue
        said = text_of(status_of(entries[-1]).message)
        ended = {did.turn for did in world.history.agent if did.task_id == key.task_id and did.what == "ended"}
        if said and not said.startswith("done: "):
            yield f"{key.task_id} is complete with the answer {said!r}."
        if not ended:
            yield f"{key.task_id} is complete, and its agent never came to its end."
        asks = [did.message_id for did in world.history.agent if did.task_id == key.task_id and did.turn in ended]
        if not asks and said != answer_to("quick"):
            yield f"{key.task_id} is complete, and no message of it was answered."


def _lasts(world: "SimWorld", fault: str, number: int) -> float:
    """Return the greatest duration in seconds for which a planned fault of this kind has effects."""
    return max((aim.amount for aim in world.plan.aims if aim.fault.value == fault), default=0.0) + (
        960.0 if fault == Fault.LATE.value else 0.0
    )


CHECKS: tuple[Callable[["SimWorld"], Iterator[str]], ...] = (
    i1_accepted_message_is_not_lost,
    i2_message_is_processed_once,
    i3_state_transitions_are_allowed,
    i4_terminal_event_is_the_last,
    i5_events_are_numbered_without_gap,
    i10_context_has_one_lease_holder,
    i11_finished_step_is_not_repeated,
    i11b_step_begins_under_lease,
    i12_canceled_task_stops,
    i13_owners_are_isolated,
    i14_no_work_is_left,
    i15_failure_has_a_reason,
    i16_work_ends_in_time,
    i16b_dead_process_is_replaced_soon,
    i18_completed_task_has_agents_answer,
    *READER_CHECKS,
    *STORE_CHECKS,
    *PUSH_CHECKS,
    *REMOTE_CHECKS,
)
