"""Invariants of streams, responses and replies, as clients receive them."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.records import Delta
from aion_core.engine.stream.broadcast import Resumed
from aion_core.engine.stream.subscription import IDLE_SECONDS, LEAVE_SECONDS
from aion_core.engine.task import projection
from aion_core.engine.task.delta_rows import DELTA_LIFE
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import Message, Task, TaskStatusUpdateEvent
from aion_core.table.keys import TaskKey
from tests.simulation.agents import text_of
from tests.simulation.facts import ASKS, ENDS, is_undisturbed
from tests.simulation.faults import DEADLY, Fault
from tests.simulation.history import Entry, Hearing, plain
from tests.support.streams import faults_of_text

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

BEHIND_SECONDS, SOON_SECONDS = 30.0, 4.0


def i6_reader_receives_every_event_once(world: "SimWorld") -> Iterator[str]:
    for hearing in world.history.hearings:
        if not hearing.heard or isinstance(hearing.heard[0][2], Message):
            continue
        entries = world.history.log.get(TaskKey(hearing.owner, hearing.task_id))
        who = f"{hearing.client}, from {hearing.at:.3f} s and {hearing.cursor!r},"
        if entries is None:
            yield f"{who} received {hearing.task_id}, but no such task was recorded."
            continue
        yield from (f"{who} {sentence}" for sentence in _faults_of_connection(hearing, entries))


def _faults_of_connection(hearing: Hearing, entries: list[Entry]) -> Iterator[str]:
    """Yield each mistake in a connection's events."""
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
                yield f"received the chunk {id_} after event {generation}."
            continue
        said = int(id_)
        if said > len(entries) or entries[said - 1].at > at:
            yield f"received event {id_} before it was recorded."
            return
        if number == 0 and isinstance(what, Task) and (not generation or said != generation + 1):
            if plain(what) != plain(projection.fold(entry.numbered for entry in entries[:said])):
                yield f"was given a task at {id_} that is not what its events add up to."
        elif said != generation + 1:
            yield f"received event {id_} after {generation}."
        elif plain(what) != entries[said - 1].bytes:
            yield f"received another event {id_} than the recorded one."
        generation = said
    first = next((id_ for _, id_, what in hearing.heard if id_ and not isinstance(what, Delta)), None)
    if place[0] and first is not None and int(first) != place[0] + 1:
        yield f"reconnected and received {first} first."


def i6d_streamed_text_is_prefix_of_agents_text(world: "SimWorld") -> Iterator[str]:
    """Join a reader's chunks over all its connections; report a text that is no prefix of the agent's text."""
    for key, received in _chains(world):

        def is_true(id_: str, text: str, task_id: str = key.task_id) -> bool:
            texts = world.history.spoken.get((task_id, int(id_.split(".")[1])), {})
            return any(spoken.startswith(text) for spoken in texts.values())

        yield from faults_of_text(received, is_true)


def i6b_reader_of_terminal_event_has_all_events(world: "SimWorld") -> Iterator[str]:
    for hearing in world.history.hearings:
        entries = world.history.log.get(TaskKey(hearing.owner, hearing.task_id), [])
        if hearing.how != "clean" or not hearing.heard:
            continue
        numbers = [int(id_) for _, id_, what in hearing.heard if id_ and not isinstance(what, Delta)]
        last = max(numbers, default=_place(hearing.cursor, len(entries))[0])
        ended = [entry for entry in entries if entry.at <= hearing.heard[-1][0]]
        if entries and last < len(ended) and entries[last - 1].state in ENDS:
            yield f"{hearing.client} received {last} as the last of {len(entries)} events."


def i6c_no_chunk_is_missing(world: "SimWorld") -> Iterator[str]:
    """Report a missing chunk of a text, unless a fault has disturbed the streaming process."""
    if any(aim.amount > DELTA_LIFE.total_seconds() for aim in world.plan.aims):
        # The chunks expired while their reader was frozen: it receives only the events, with the whole texts.
        return
    if world.history.deaths or any(
        fault != Fault.SLOW and (not kind.startswith(("queue", "sse")) or fault in DEADLY)
        for _, fault, kind, _ in world.history.faults
    ):
        return
    for hearing in world.history.hearings:
        # Require the end of each text only in a task with one lease: a text of a former lease holder may have no end.
        alone = len({hold.fence for hold in world.history.holds if hold.task_id == hearing.task_id}) == 1
        expected, closed, of = 0, True, ""
        for _, id_, what in hearing.heard:
            if isinstance(what, Delta):
                group, number = id_.rsplit(".", 1)
                if group != of:
                    expected = 0 if of or not hearing.cursor else int(number)
                    of = group
                if int(number) != expected:
                    yield f"{hearing.client} received the chunk {id_} instead of {expected}."
                expected, closed = int(number) + 1, what.last
            elif id_:
                if alone and not closed and isinstance(what, TaskStatusUpdateEvent) and what.status.state in ENDS:
                    yield f"{hearing.client} received the end {id_} before the end of the preceding text."
                expected, of = 0, of or id_


def i17_response_equals_log_at_some_moment(world: "SimWorld") -> Iterator[str]:
    """Report a response with a task that the log contained at no moment between request and response."""
    for asking in world.history.askings:
        if not isinstance(asking.answer, Task) or asking.answered is None:
            continue
        key = TaskKey(asking.owner, asking.answer.id)
        entries = world.history.log.get(key, [])
        # Accept the task of any log length between the shortest at the request and the longest at the response.
        first = max(1, sum(entry.visible < asking.at for entry in entries))
        last = sum(entry.at <= asking.answered for entry in entries)
        said = plain(asking.answer)
        if not any(
            said == plain(projection.fold(entry.numbered for entry in entries[:length]))
            for length in range(last, first - 1, -1)
        ):
            yield f"{asking.client} was answered ({asking.what}) with a task that {key.task_id} was not just then."


def i19_messages_are_stored_unchanged(world: "SimWorld") -> Iterator[str]:
    """Report a recorded message that differs from the agent's, and a stream without faults that lacks a chunk."""
    for key, entries in world.history.log.items():
        for entry in entries:
            event, said = entry.numbered.event, entry.numbered.key
            if not said or not isinstance(event, TaskStatusUpdateEvent) or event.HasField("metadata"):
                continue
            if text_of(event.status.message).rstrip(".") != f"word {said}":
                yield f"{key.task_id} has {text_of(event.status.message)!r} for {said}."
    if world.history.faults or world.history.deaths:
        return
    for hearing in world.history.hearings:
        fences = {hold.fence for hold in world.history.holds if hold.task_id == hearing.task_id}
        whole = hearing.heard and hearing.heard[0][1] == "1" and hearing.how == "clean" and len(fences) == 1
        if whole and _ended(hearing):
            text = "".join(what.text for _, _, what in hearing.heard if isinstance(what, Delta))
            (fence,) = fences
            spoken = "".join(world.history.spoken.get((hearing.task_id, fence), {}).values())
            if text != spoken:
                yield f"{hearing.client} received {text[:40]!r}, and {spoken[:40]!r} was streamed."


def i23_reply_is_message_or_task(world: "SimWorld") -> Iterator[str]:
    """Report a Message that is not the whole reply, and repeats of a request with different Messages."""
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


def _ended(hearing: Hearing) -> bool:
    last = hearing.heard[-1][2]
    return isinstance(last, TaskStatusUpdateEvent) and last.status.state in ENDS


def _place(cursor: str, newest: int) -> tuple[int, int, int]:
    """Return the position in the task that this Last-Event-ID means; (0, 0, 0) if the id is invalid."""
    steps = cursor.split(".")
    if len(steps) not in (1, 3) or not all(step.isdecimal() for step in steps) or not 0 < int(steps[0]) <= newest:
        return (0, 0, 0)
    return (int(steps[0]), int(steps[1]), int(steps[2]) + 1) if len(steps) == 3 else (int(steps[0]), 0, 0)


def i6e_no_stored_chunk_is_left_out(world: "SimWorld") -> Iterator[str]:
    """Report a stored chunk between two events that a reconnected reader did not receive, unless a request failed."""
    if not is_undisturbed(
        world, Fault.CONFLICT, Fault.SKEWED, Fault.STALE, Fault.SEEN_AGAIN, Fault.POISONED, Fault.LOST
    ):
        return
    for key, received in _chains(world):
        events = [id_ for id_, what in received if id_ and not isinstance(what, Delta)]
        for before, after in pairwise(events):
            if int(after) != int(before) + 1:
                continue
            given = {id_ for id_, what in received if isinstance(what, Delta) and id_.startswith(f"{before}.")}
            stored = {id_ for task, id_ in world.history.streamed if task == key and id_.startswith(f"{before}.")}
            # Compare only the chunks of the newest lease, because they replace the chunks of an earlier lease whose
            # process had a slow clock.
            newest = max((int(id_.split(".")[1]) for id_ in stored), default=0)
            missing = {id_ for id_ in stored if int(id_.split(".")[1]) == newest} - given
            if missing and events.index(before):
                yield f"A reader of {key.task_id} was not given {sorted(missing)[:5]} after event {before}."


def i28_stream_survives_single_failures(world: "SimWorld") -> Iterator[str]:
    """Report a stream that ended although only single requests were throttled, at least 30 s apart."""
    times = sorted(at for at, fault, kind, _ in world.history.faults if fault == Fault.THROTTLED.value)
    if world.unavailable_until or any(later - earlier < 30.0 for earlier, later in pairwise(times)):
        return
    for asking in world.history.askings:
        heard = any(
            hearing.heard and hearing.at == asking.at and hearing.client == asking.client
            for hearing in world.history.hearings
        )
        if heard and isinstance(asking.answer, StoreUnavailable):
            yield f"The stream of {asking.client} ended by {asking.answer!r}."


def i31_event_is_streamed_soon(world: "SimWorld") -> Iterator[str]:
    """Report an event that was streamed long after its commit, even if the streaming process had a wrong clock."""
    if not is_undisturbed(world, Fault.SKEWED, Fault.CONFLICT, Fault.STALE, Fault.HALF_MADE):
        return
    for hearing in world.history.hearings:
        entries = world.history.log.get(TaskKey(hearing.owner, hearing.task_id), [])
        for at, id_, what in hearing.heard:
            if id_ and not isinstance(what, Delta) and int(id_) <= len(entries):
                recorded = max(hearing.at, entries[int(id_) - 1].at)
                behind = at - recorded
                # Subtract the time in which the event loop was blocked, because a blocked loop streams nothing.
                blocked = sum(
                    max(0.0, min(at, end) - max(recorded, begin))
                    for process, begin, end in world.history.blocked
                    if process == hearing.process
                )
                if behind - blocked > BEHIND_SECONDS:
                    yield f"{hearing.client} received event {id_} {behind:.0f} s late."


def i30_stream_begins_soon(world: "SimWorld") -> Iterator[str]:
    """Report a stream without faults and with `reply: auto` whose first event took seconds to arrive."""
    if world.deployment.reply is not ReplyAs.AUTO or not is_undisturbed(world):
        return
    for hearing in world.history.hearings:
        if hearing.heard and hearing.heard[0][0] > hearing.at + SOON_SECONDS:
            yield f"{hearing.client} received nothing for {hearing.heard[0][0] - hearing.at:.1f} s."


def i33_subscription_outlasts_interrupt(world: "SimWorld") -> Iterator[str]:
    """Report a subscription to an interrupted task that closed within five minutes of the last event (A2A 3.1.6)."""
    for hearing in world.history.hearings:
        if not hearing.subscribes or hearing.how != "clean" or not hearing.heard:
            continue
        statuses = [what.status for _, _, what in hearing.heard if isinstance(what, Task | TaskStatusUpdateEvent)]
        quiet = hearing.ended - hearing.heard[-1][0]
        if (
            statuses
            and statuses[-1].state in ASKS
            and quiet < IDLE_SECONDS - 1
            and hearing.seconds_left > LEAVE_SECONDS
        ):
            yield f"{hearing.client} was sent away {quiet:.1f} s after a question of {hearing.task_id}."


def _chains(world: "SimWorld") -> Iterator[tuple[TaskKey, list[tuple[str, object]]]]:
    """Yield each reader's task with everything that the reader received over all its connections."""
    continued = {id(hearing.after) for hearing in world.history.hearings if hearing.after is not None}
    for last in world.history.hearings:
        chain = [last]
        while chain[0].after is not None:
            chain.insert(0, chain[0].after)
        # Skip a reader whose first connection has an invented cursor, because it lacks earlier chunks.
        if id(last) not in continued and not chain[0].cursor:
            received = [(id_, what) for hearing in chain for _, id_, what in hearing.heard]
            yield TaskKey(last.owner, last.task_id), received


READER_CHECKS: tuple[Callable[["SimWorld"], Iterator[str]], ...] = (
    i6_reader_receives_every_event_once,
    i6d_streamed_text_is_prefix_of_agents_text,
    i6b_reader_of_terminal_event_has_all_events,
    i6c_no_chunk_is_missing,
    i17_response_equals_log_at_some_moment,
    i19_messages_are_stored_unchanged,
    i23_reply_is_message_or_task,
    i6e_no_stored_chunk_is_left_out,
    i28_stream_survives_single_failures,
    i31_event_is_streamed_soon,
    i30_stream_begins_soon,
    i33_subscription_outlasts_interrupt,
)
