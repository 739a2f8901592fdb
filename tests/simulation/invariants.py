"""What must hold in the end, whatever went wrong: RELIABILITY's invariants, each a function over what was recorded."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from aion_core.errors import (
    ClientError,
    ContextBusy,
    StoreCorrupt,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
    TooManyRequests,
)
from aion_core.ports import Delta, ReplyAs, TaskKey, WhenBusy
from aion_core.protocol.types import Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import projection
from aion_core.tasks.run import Resumed
from tests.simulation.agents import PROGRAMS, answer_to, text_of
from tests.simulation.faults import Fault
from tests.simulation.history import Entry, Hearing, plain, users_messages
from tests.simulation.loop import at_once
from tests.simulation.push_invariants import (
    i8_who_listens_is_told,
    i9_the_tries_of_an_event_have_one_id,
    i16c_who_listens_is_told_soon,
)
from tests.support.streams import faults_of_text

if TYPE_CHECKING:
    from tests.simulation.world import World

S, W = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
ASKS = {TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED}
ENDS = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}
FOLLOWS = {S: {W} | ENDS, W: {W} | ASKS | ENDS, **{state: {W} | ENDS for state in ASKS}}
"""Which state may follow which; written down here once more, so that the engine cannot be wrong about it alone."""

_DEADLY = {fault.value for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.CRASH_IN_FLIGHT, Fault.KILLED_SOON)}
STOP_SECONDS = 5.0
"""So long after a cancel its agent may still be at work: it is looked once a second, and stopped for two."""


def violations(world: "World") -> list[str]:
    """Return a sentence for each thing that is not as it was promised."""
    found = [*world.history.surprises]
    for check in CHECKS:
        name = check.__name__.split("_")[0].upper()
        found += [f"{name}: {sentence}" for sentence in check(world)]
    return found


def i1_an_answered_task_is_never_lost(world: "World") -> Iterator[str]:
    for key, entries in world.history.log.items():
        if entries and entries[-1].state not in ENDS | ASKS:
            yield f"{key.task_id} is {TaskState.Name(entries[-1].state)}, and nobody is at work on it."
    for asking in world.history.askings:
        if asking.what == "send" and isinstance(asking.answer, Task):
            key = TaskKey(asking.owner, asking.answer.id)
            task = _task(world, key)
            if task is None:
                yield f"{asking.client} was told of {key.task_id}, which is nowhere."
            elif asking.message_id not in {message.message_id for message in task.history}:
                # A cancel ends whatever turns a task has; while the task asks, what was said before waits.
                waits = task.status.state in ASKS and asking.message_id in world.watch.waiting_messages(key)
                if task.status.state != TaskState.TASK_STATE_CANCELED and not waits:
                    yield f"{asking.message_id} of {asking.client} was taken, and is not in {key.task_id}."


def i2_a_message_is_taken_once(world: "World") -> Iterator[str]:
    told: Counter[tuple[str, str, str]] = Counter()
    for key in world.history.log:
        task = _task(world, key)
        for message in users_messages(task) if task else ():
            told[key.owner, world.history.context_of[key].context_id, message.message_id] += 1
    for (owner, context, message), times in told.items():
        if times > 1:
            yield f"{message} of {owner} stands {times} times in the context {context}."
    turns: dict[tuple[str, str, str], set[str]] = {}
    for did in world.history.agent:
        if did.what == "given":
            turns.setdefault((did.context.owner, did.context.context_id, did.message_id), set()).add(did.turn)
    for (_, _, message), of_it in turns.items():
        if len(of_it) > 1:
            yield f"{message} was answered in {len(of_it)} turns."


def i3_a_task_goes_where_it_may(world: "World") -> Iterator[str]:
    for key, entries in world.history.log.items():
        for before, after in pairwise(entries):
            if hasattr(after.numbered.event, "status") and after.state not in FOLLOWS.get(before.state, set()):
                yield f"{key.task_id} went from {TaskState.Name(before.state)} to {TaskState.Name(after.state)}."


def i4_the_end_is_the_end(world: "World") -> Iterator[str]:
    for key, entries in world.history.log.items():
        ends = [entry.numbered.generation for entry in entries if entry.state in ENDS]
        if ends and ends[0] != entries[-1].numbered.generation:
            yield f"{key.task_id} ended with event {ends[0]}, and went on to {entries[-1].numbered.generation}."
        log = None if key.task_id in world.history.unreadable else at_once(world.log.log(key))
        if log is None:
            if key.task_id not in world.history.unreadable and not world.forgets:
                yield f"{key.task_id} is gone."
            continue
        kept = [plain(numbered.event) for numbered in log.events]
        base = log.events[0].generation - 1 if log.events else 0
        if not base and kept != [entry.bytes for entry in entries]:
            yield f"The log of {key.task_id} is not what was recorded."
        if base and plain(projection.fold(log.events)) != plain(projection.fold(e.numbered for e in entries)):
            yield f"The snapshot of {key.task_id} is not what its events add up to."


def i5_events_are_numbered_without_a_gap(world: "World") -> Iterator[str]:
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


def i6_a_reader_hears_every_event_once(world: "World") -> Iterator[str]:
    for hearing in world.history.hearings:
        if not hearing.heard or isinstance(hearing.heard[0][2], Message):
            continue
        entries = world.history.log.get(TaskKey(hearing.owner, hearing.task_id))
        who = f"{hearing.client}, from {hearing.at:.3f} s and {hearing.cursor!r},"
        if entries is None:
            yield f"{who} heard of {hearing.task_id}, which nobody recorded."
            continue
        yield from (f"{who} {sentence}" for sentence in _heard_wrongly(hearing, entries))


def _heard_wrongly(hearing: Hearing, entries: list[Entry]) -> Iterator[str]:
    """What is wrong with what was heard on one connection."""
    place = (0, 0, 0)
    if isinstance(hearing.heard[0][2], Resumed):
        place = _place(hearing.cursor, len(entries))
        if not place[0]:
            yield "was let in at a place that is none of the task's."
    elif _place(hearing.cursor, sum(entry.at <= hearing.at for entry in entries))[0]:
        yield "came back, and was not let in where it had stood."
    generation = place[0]
    for number, (at, id_, what) in enumerate(hearing.heard):
        if not id_:
            continue
        if isinstance(what, Delta):
            if int(id_.split(".")[0]) != generation:
                yield f"heard the chunk {id_} after event {generation}."
            continue
        said = int(id_)
        if said > len(entries) or entries[said - 1].at > at:
            yield f"heard event {id_} before it was recorded."
            return
        if number == 0 and isinstance(what, Task) and (not generation or said != generation + 1):
            if plain(what) != plain(projection.fold(entry.numbered for entry in entries[:said])):
                yield f"was given a task at {id_} that is not what its events add up to."
        elif said != generation + 1:
            yield f"heard event {id_} after {generation}."
        elif plain(what) != entries[said - 1].bytes:
            yield f"heard another event {id_} than was recorded."
        generation = said
    first = next((id_ for _, id_, what in hearing.heard if id_ and not isinstance(what, Delta)), None)
    if place[0] and first is not None and int(first) != place[0] + 1:
        yield f"came back and heard {first} first."


def i6d_the_text_shown_is_true(world: "World") -> Iterator[str]:
    """A reader's text is a prefix of the true one, or starts anew with `append: false`, over all its connections."""
    continued = {id(hearing.after) for hearing in world.history.hearings if hearing.after is not None}
    for last in world.history.hearings:
        if id(last) in continued:
            continue
        chain = [last]
        while chain[0].after is not None:
            chain.insert(0, chain[0].after)
        if chain[0].cursor:
            continue  # a cursor that its client has made up
        key = TaskKey(last.owner, last.task_id)
        received = [(id_, what) for hearing in chain for _, id_, what in hearing.heard]
        given = {id_: what for id_, what in received if isinstance(what, Delta)}
        for sentence in faults_of_text(received, lambda id_: world.history.streamed.get((key, id_), given[id_])):  # noqa: B023
            yield f"{last.client}, {sentence}"


def i6b_a_reader_who_is_told_the_end_has_heard_all(world: "World") -> Iterator[str]:
    for hearing in world.history.hearings:
        entries = world.history.log.get(TaskKey(hearing.owner, hearing.task_id), [])
        if hearing.how != "clean" or not hearing.heard:
            continue
        numbers = [int(id_) for _, id_, what in hearing.heard if id_ and not isinstance(what, Delta)]
        last = max(numbers, default=_place(hearing.cursor, len(entries))[0])
        ended = [entry for entry in entries if entry.at <= hearing.heard[-1][0]]
        if entries and last < len(ended) and entries[last - 1].state in ENDS:
            yield f"{hearing.client} heard {last} as the last of {len(entries)} events."


def i10_one_lives_in_a_context(world: "World") -> Iterator[str]:
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
            if before and before[-1].state in ASKS:
                yield f"The turn {hold.turn} was begun while {key.task_id} waited for its answer."
    slack = 1200.0 if world.skewed else 10.5
    by_context: dict[object, list[object]] = {}
    for hold in world.history.holds:
        before = by_context.setdefault(hold.context, [])
        for other in before:
            if hold.at < other.until - slack and (other.over is None or other.over > hold.at):  # type: ignore[attr-defined]
                yield f"{hold.process} took the lease {hold.fence} while {other.process} held {other.fence} and lived."  # type: ignore[attr-defined]
            if hold.fence <= other.fence:  # type: ignore[attr-defined]
                yield f"The fence {hold.fence} was given after {other.fence}."  # type: ignore[attr-defined]
        before.append(hold)


def i11_what_is_finished_is_not_done_again(world: "World") -> Iterator[str]:
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
        entries = world.history.log[TaskKey(did.context.owner, did.task_id)]
        if did.current and key not in {entry.numbered.key for entry in entries}:
            yield f"{key} was emitted by a step that is finished, and is not in the log of {did.task_id}."


def i12_a_canceled_task_is_silent(world: "World") -> Iterator[str]:
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
                text = _asked_of(world, key)
                if not troubled and not text & {"stubborn", "blocks"} and not world.unavailable_until:
                    yield f"The agent of {key.task_id} was at work {late:.1f} s after its cancel was answered."


def i13_nobody_sees_anothers(world: "World") -> Iterator[str]:
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
            yield f"{hearing.owner} heard of {hearing.task_id}, which is another's."


def i14_nothing_is_left(world: "World") -> Iterator[str]:
    yield from (f"{owed}." for owed in world.promised())
    if world.queue.open():
        yield f"Bells are left: {[letter.bell for letter in world.queue.open()]}."
    for process in world.processes:
        if process.busy:
            yield f"{process.name} is still at work."
    if world.left and not any(
        did.what == "given" and "stubborn" in _asked_of(world, TaskKey(did.context.owner, did.task_id))
        for did in world.history.agent
    ):
        yield f"{len(world.left)} tasks still run in processes that rest: {world.left[:2]}."
    if world.queue.dead and not _happened(world, Fault.HANDLER_FAILS, Fault.BURST, Fault.POISONED, Fault.DOUBLED):
        yield f"Bells have died: {[letter.bell for letter in world.queue.dead]}."


def i15_a_failure_has_a_reason(world: "World") -> Iterator[str]:
    for key, entries in world.history.log.items():
        if not entries or entries[-1].state != TaskState.TASK_STATE_FAILED:
            continue
        status = entries[-1].numbered.event.status
        reason = text_of(status.message)
        if not reason:
            yield f"{key.task_id} failed without a reason."
        if "Traceback" in reason or "secret" in reason:
            yield f"{key.task_id} says too much: {reason}"
        # A turn that its holder did not survive is begun again, three times; one fault takes two of them at the most.
        begun = world.history.faults[1:]
        if key.task_id in world.history.unreadable:
            continue
        fails = any(PROGRAMS[text].fails for text in _asked_of(world, key) if text in PROGRAMS)
        if not fails and "begun" in reason and not begun:
            yield f"{key.task_id} failed ({reason}), and there was too little that went wrong."
        if not fails and "begun" not in reason and not _asked_of(world, key) & {"sour"}:
            yield f"{key.task_id} failed, and its agent did not: {reason}"


def i16_it_does_not_take_for_ever(world: "World") -> Iterator[str]:
    if world.history.bells > 800:
        yield f"{world.history.bells} bells were rung."
    disturbed = max(
        [at + _lasts(world, fault, number) for number, (at, fault, _, _) in enumerate(world.history.faults)]
        + [asking.at for asking in world.history.askings if asking.what in ("send", "stream", "cancel")]
    )
    disturbed = max(disturbed, world.unavailable_until)
    tries = 2 + len(world.history.faults)
    for key, at in world.history.resting.items():
        work = sum(
            world.seconds_of(other)
            for other in world.history.log
            if world.history.context_of[other] == world.history.context_of[key]
        )
        texts = set().union(*(_asked_of(world, other) for other in world.history.log))
        most = (
            disturbed + tries * work + 150.0 * tries + (3700.0 if texts & {"hangs", "deaf", "long", "lumps"} else 0.0)
        )
        most += 1400.0 * len(world.history.faults) if world.skewed else 0.0
        if at > most:
            yield f"{key.task_id} came to rest at {at:.0f} s, when {most:.0f} s was long enough."


def i16b_who_dies_is_followed_soon(world: "World") -> Iterator[str]:
    """Within 60 s where the bell that watches the turn was rung, within 120 s in any case."""
    faults = [(fault, kind) for _, fault, kind, _ in world.history.faults]
    for write in world.history.writes:
        if write.how == "pause" and not faults:
            later = [one.at for one in world.history.holds if one.context == write.context and one.at > write.at]
            if not later or min(later) > write.at + 5.0:
                yield f"{write.process} handed a turn on at {write.at:.1f} s, and nobody took it up for 5 s."
    if any(fault not in _DEADLY for fault, _ in faults):
        return
    deaths = sorted(world.history.deaths.values())
    for hold in world.history.holds:
        died = world.history.deaths.get(hold.process)
        if died is None or died < hold.at or (hold.over is not None and hold.over <= died):
            continue
        later = [one.at for one in world.history.holds if one.context == hold.context and one.fence > hold.fence]
        ended = [hold.over] if hold.over is not None else []
        followed = min([*later, *ended], default=None)
        watched = died > hold.at + 11.0 and len(deaths) == 1
        most = 62.0 if watched else 122.0 * len(deaths)
        if followed is None or followed > died + most:
            yield f"{hold.process} died at {died:.1f} s; its turn was begun again at {followed}."


def i6c_no_chunk_is_missing(world: "World") -> Iterator[str]:
    """Where nothing has happened to whoever speaks, a reader hears each chunk of what it hears the end of."""
    if world.history.deaths or any(
        fault != Fault.SLOW and (not kind.startswith(("queue", "sse", "bell")) or fault in _DEADLY)
        for _, fault, kind, _ in world.history.faults
    ):
        return
    for hearing in world.history.hearings:
        expected, closed, of = 0, True, ""
        for _, id_, what in hearing.heard:
            if isinstance(what, Delta):
                group, number = id_.rsplit(".", 1)
                if group != of:
                    expected = 0 if of or not hearing.cursor else int(number)
                    of = group
                if int(number) != expected:
                    yield f"{hearing.client} heard the chunk {id_} where {expected} was the next."
                expected, closed = int(number) + 1, what.last
            elif id_:
                if not closed and not isinstance(what, Task):
                    yield f"{hearing.client} heard event {id_} before the text in front of it had ended."
                expected, closed, of = 0, True, of or id_


def i19_what_is_said_is_said_as_it_was(world: "World") -> Iterator[str]:
    """Words and things stand in the log as the agent gave them; a stream that was not disturbed has every chunk."""
    for key, entries in world.history.log.items():
        for entry in entries:
            event, said = entry.numbered.event, entry.numbered.key
            word = said and isinstance(event, TaskStatusUpdateEvent) and not event.HasField("metadata")
            if word and text_of(event.status.message).rstrip(".") != f"word {said}":
                yield f"{key.task_id} has {text_of(event.status.message)!r} for {said}."
    if world.history.faults or world.history.deaths:
        return
    for hearing in world.history.hearings:
        fences = {hold.fence for hold in world.history.holds if hold.task_id == hearing.task_id}
        whole = hearing.heard and hearing.heard[0][1] == "1" and hearing.how == "clean" and len(fences) == 1
        if whole and _ended(hearing):
            text = "".join(what.text for _, _, what in hearing.heard if isinstance(what, Delta))
            spoken = world.history.spoken.get((hearing.task_id, *fences), "")
            if text != spoken:
                yield f"{hearing.client} heard {text[:40]!r}, and {spoken[:40]!r} was spoken."


def i20_who_is_refused_has_given_cause(world: "World") -> Iterator[str]:
    for asking in world.history.askings:
        error, key = asking.answer, TaskKey(asking.owner, asking.task_id)
        if not isinstance(error, ClientError) or asking.answered is None:
            continue
        entries = world.history.log.get(key)
        then = [entry.state for entry in entries or () if entry.at <= asking.answered]
        match error:
            case TaskNotFound():
                just = entries is None or world.forgets
            case TooManyRequests():
                just = world.deployment.open_tasks is not None
            case TaskFinished() | TaskNotCancelable():
                just = bool(then) and then[-1] in ENDS
            case ContextBusy() if asking.what in ("send", "stream"):
                # By the agent's policy; or two answers to one question, one of which was first.
                asks = any(entry.state in ASKS for other in world.history.log.values() for entry in other)
                just = asks or world.deployment.when_busy is not WhenBusy.ENQUEUE
            case _:
                just = False
        if not just:
            yield f"{asking.client} was refused ({asking.what} {asking.message_id} {asking.task_id}): {error!r}"


def i21_a_list_holds_the_owners_tasks(world: "World") -> Iterator[str]:
    """Each task once, the newest first; all of them once everything is at rest and the index has caught up."""
    stale = _happened(world, Fault.STALE)
    for asking in world.history.askings:
        if not asking.what.startswith("list") or not isinstance(asking.answer, list):
            continue
        ids = [task.id for task in asking.answer]
        own = {key.task_id for key in world.history.log if key.owner == asking.owner}
        own = {key.task_id for key in world.history.log if key.task_id in own and _is_in(world, key, asking.context)}
        if len(set(ids)) != len(ids) and not stale:
            yield f"{asking.client} was listed a task twice: {ids}."
        if not set(ids) <= own:
            yield f"{asking.client} was listed what is not its own: {set(ids) - own}."
        if asking.what == "list all" and not stale and own - set(ids) - world.history.unreadable:
            yield f"{asking.client} was not listed {own - set(ids)}."


def i22_no_more_tasks_are_open_than_may_be(world: "World") -> Iterator[str]:
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


def i23_a_reply_is_a_message_or_a_task(world: "World") -> Iterator[str]:
    """A message by reply mode answers the message alone, and is the same each time; a stream says something."""
    replies: dict[tuple[str, str, str], set[bytes]] = {}
    for asking in world.history.askings:
        if isinstance(asking.answer, Message):
            replies.setdefault((asking.owner, asking.context, asking.message_id), set()).add(
                asking.answer.SerializeToString(deterministic=True)
            )
            if world.deployment.reply is ReplyAs.TASK and not world.release:
                yield f"{asking.client} was answered by a message."
            if asking.answer.task_id:
                yield f"{asking.client} was answered by a message of {asking.answer.task_id}."
    for (owner, _, message_id), answers in replies.items():
        if len(answers) > 1:
            yield f"{message_id} of {owner} was answered by {len(answers)} different messages."
    for hearing in world.history.hearings:
        messages = [what for _, _, what in hearing.heard if isinstance(what, Message)]
        if messages and len(hearing.heard) > 1:
            yield f"{hearing.client} received a message beside {len(hearing.heard) - 1} others."


def i26_a_record_is_unreadable_only_if_it_was_destroyed(world: "World") -> Iterator[str]:
    if world.history.unreadable:
        return
    for answer in [asking.answer for asking in world.history.askings]:
        if isinstance(answer, StoreCorrupt):
            yield f"A client was answered by {answer!r}."


def i24_an_idempotency_key_names_one_task(world: "World") -> Iterator[str]:
    tasks: dict[tuple[str, str], set[str]] = {}
    for asking in world.history.askings:
        if asking.key and isinstance(asking.answer, Task):
            tasks.setdefault((asking.owner, asking.key), set()).add(asking.answer.id)
    for (owner, key), ids in tasks.items():
        if len(ids) > 1:
            yield f"The key {key} of {owner} made {sorted(ids)}."


def i25_an_agent_recalls_its_context(world: "World") -> Iterator[str]:
    for context, message_id, ids in world.history.recalled:
        own = {
            message.message_id
            for key in world.history.log
            if world.history.context_of[key] == context and (task := _task(world, key)) is not None
            for message in (*task.history, task.status.message)
        }
        if len(set(ids)) != len(ids):
            yield f"The agent recalled a message twice when it answered {message_id}: {ids}."
        if not set(ids) <= own:
            yield f"The agent recalled messages of another context when it answered {message_id}: {set(ids) - own}."
        if message_id not in ids:
            yield f"The agent did not recall {message_id}, which it answered."


def _is_in(world: "World", key: TaskKey, context: str) -> bool:
    return not context or world.history.context_of[key].context_id == context


def _ended(hearing: Hearing) -> bool:
    last = hearing.heard[-1][2]
    return isinstance(last, TaskStatusUpdateEvent) and last.status.state in ENDS


def i17_an_answer_is_the_log_at_some_moment(world: "World") -> Iterator[str]:
    """What a client is answered is the fold of the log as it was while it asked."""
    for asking in world.history.askings:
        if not isinstance(asking.answer, Task) or asking.answered is None:
            continue
        key = TaskKey(asking.owner, asking.answer.id)
        entries = world.history.log.get(key, [])
        # As it was at some moment between the question and the answer.
        first = max(1, sum(entry.at < asking.at for entry in entries))
        last = sum(entry.at <= asking.answered for entry in entries)
        said = plain(asking.answer)
        if not any(
            said == plain(projection.fold(entry.numbered for entry in entries[:length]))
            for length in range(last, first - 1, -1)
        ):
            yield f"{asking.client} was answered ({asking.what}) with a task that {key.task_id} was not just then."


def i18_the_answer_is_the_agents(world: "World") -> Iterator[str]:
    """A task that is complete says what its agent answered in the end."""
    for key, entries in world.history.log.items():
        if not entries or entries[-1].state != TaskState.TASK_STATE_COMPLETED:
            continue
        said = text_of(entries[-1].numbered.event.status.message)
        ended = {did.turn for did in world.history.agent if did.task_id == key.task_id and did.what == "ended"}
        if said and not said.startswith("done: "):
            yield f"{key.task_id} is complete and says {said!r}."
        if not ended:
            yield f"{key.task_id} is complete, and its agent never came to its end."
        asks = [did.message_id for did in world.history.agent if did.task_id == key.task_id and did.turn in ended]
        if not asks and said != answer_to("quick"):
            yield f"{key.task_id} is complete, and no message of it was answered."


def _task(world: "World", key: TaskKey) -> Task | None:
    entries = world.history.log.get(key)
    return projection.fold(entry.numbered for entry in entries) if entries else None


def _asked_of(world: "World", key: TaskKey) -> set[str]:
    """The programs that the task's messages name."""
    task = _task(world, key)
    return {text_of(message) for message in users_messages(task)} if task else set()


def _place(cursor: str, newest: int) -> tuple[int, int, int]:
    """Where a reader with this Last-Event-ID stands; (0, 0, 0) where it is none of this task's."""
    steps = cursor.split(".")
    if len(steps) not in (1, 3) or not all(step.isdecimal() for step in steps) or not 0 < int(steps[0]) <= newest:
        return (0, 0, 0)
    return (int(steps[0]), int(steps[1]), int(steps[2]) + 1) if len(steps) == 3 else (int(steps[0]), 0, 0)


def _happened(world: "World", *faults: Fault) -> bool:
    return any(fault in {one.value for one in faults} for _, fault, _, _ in world.history.faults)


def _lasts(world: "World", fault: str, number: int) -> float:
    """How long after it a fault may still make itself felt."""
    return max((aim.amount for aim in world.plan.aims if aim.fault.value == fault), default=0.0) + (
        960.0 if fault == Fault.LATE.value else 0.0
    )


CHECKS: tuple[Callable[["World"], Iterator[str]], ...] = (
    i1_an_answered_task_is_never_lost,
    i2_a_message_is_taken_once,
    i3_a_task_goes_where_it_may,
    i4_the_end_is_the_end,
    i5_events_are_numbered_without_a_gap,
    i6_a_reader_hears_every_event_once,
    i6b_a_reader_who_is_told_the_end_has_heard_all,
    i6d_the_text_shown_is_true,
    i6c_no_chunk_is_missing,
    i10_one_lives_in_a_context,
    i11_what_is_finished_is_not_done_again,
    i12_a_canceled_task_is_silent,
    i13_nobody_sees_anothers,
    i14_nothing_is_left,
    i15_a_failure_has_a_reason,
    i16_it_does_not_take_for_ever,
    i16b_who_dies_is_followed_soon,
    i17_an_answer_is_the_log_at_some_moment,
    i19_what_is_said_is_said_as_it_was,
    i20_who_is_refused_has_given_cause,
    i21_a_list_holds_the_owners_tasks,
    i22_no_more_tasks_are_open_than_may_be,
    i23_a_reply_is_a_message_or_a_task,
    i24_an_idempotency_key_names_one_task,
    i26_a_record_is_unreadable_only_if_it_was_destroyed,
    i25_an_agent_recalls_its_context,
    i18_the_answer_is_the_agents,
    i8_who_listens_is_told,
    i9_the_tries_of_an_event_have_one_id,
    i16c_who_listens_is_told_soon,
)
