"""Invariants of push notifications under every fault."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from aion_core.engine.agent_options import PushEvents
from aion_core.protocol.types import TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from aion_core.push.client import POST_SECONDS, Delivered, WebhookGone
from tests.simulation import assembly
from tests.simulation.facts import is_undisturbed
from tests.simulation.faults import Fault
from tests.simulation.history import Entry, Listening, Post
from tests.simulation.receivers import fine

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

MOST_SECONDS = 61.0
"""Longest delay of a post after its claim: the length of the claim."""

SOON_SECONDS = 3.0
"""Longest delay of a notification after its event, without faults."""

FOUND_SECONDS = 125.0
"""Longest delay of a notification whose message is lost in a backlog, after the end of the backlog: a sweep finds it."""


def i8_due_events_are_delivered(world: "SimWorld") -> Iterator[str]:
    """Report notifications that are missing, not selected, out of order, given up early, or sent after the end."""
    for listening in world.history.listenings:
        who = f"{listening.config.id} of {listening.task.task_id}"
        posts = _posts(world, listening)
        due = {entry.numbered.generation: entry for entry in _due(world, listening)}
        foreign = {post.generation for post in posts} - set(due)
        if foreign:
            yield f"{who} was notified of {sorted(foreign)}, not due to it."
        firsts = list(dict.fromkeys(post.generation for post in posts))
        if any(after < before for before, after in pairwise(firsts)):
            yield f"{who} was first notified of {firsts}, in this order."
        deleted = world.history.deleted.get((listening.task, listening.config.id))
        if deleted is not None:
            yield from (f"{who} {sentence}" for sentence in _after_its_end(world, posts, deleted))
            continue
        registered = world.history.registered[listening.task, listening.config.id]
        gone = [post for post in posts if isinstance(post.outcome, WebhookGone) and post.at > registered]
        heard = [post.at for post in gone if post.process not in world.history.troubled]
        # Compare the times of the claims, not of the posts: a frozen process may post late under its claim. Allow some
        # seconds if clocks are wrong, because a fast clock may win the claim while another process still posts.
        slack = POST_SECONDS if world.skewed else 0.0
        # Skip the check while the table throttles, because the process then cannot store that the webhook is gone.
        if heard and not world.unavailable_until and any(post.claimed > heard[0] + slack for post in posts):
            yield f"{who} answered that it was gone, and was notified of more."
        if gone:
            continue
        missing = set(due) - set(firsts)
        # Accept missing events if clocks are wrong and items expire: a process with a slow clock writes an earlier TTL,
        # so the config may expire before its task.
        if missing and not (world.skewed and world.forgets):
            yield f"{who} was never notified of {sorted(missing)} of {sorted(due)}."
        spared = world.history.spared[listening.task, listening.config.id]
        yield from (f"{who} {sentence}" for sentence in _given_up_early(posts, spared))


def _after_its_end(world: "SimWorld", posts: list[Post], deleted: float) -> Iterator[str]:
    after = [post for post in posts if post.at > deleted and post.process not in world.history.troubled]
    if len(after) > 1:
        yield f"was deleted at {deleted:.2f} s, and notified of {[post.generation for post in after]} after that."
    for post in posts:
        if post.claimed > deleted:
            yield f"was deleted at {deleted:.2f} s, and its claim was taken at {post.claimed:.2f} s."
        elif post.at > deleted + MOST_SECONDS and post.process not in world.history.troubled:
            yield f"was deleted at {deleted:.2f} s, and notified of {post.generation} at {post.at:.2f} s."


def _given_up_early(posts: list[Post], spared: int) -> Iterator[str]:
    """Yield events given up before their last attempt; after an event was given up, one attempt at the next is enough.

    `spared`: the number of attempts skipped by the host's circuit breaker; the last one is never skipped.
    """
    alive = True
    for generation in dict.fromkeys(post.generation for post in posts):
        of_it = [post for post in posts if post.generation == generation]
        taken = any(isinstance(post.outcome, Delivered) for post in of_it)
        if not taken and alive and len(of_it) + spared < 1 + len(assembly.RETRY_SECONDS):
            yield f"never took {generation}, which was tried only {len(of_it)} times."
        alive = taken


def i9_attempts_of_event_have_one_id(world: "SimWorld") -> Iterator[str]:
    ids: dict[tuple[object, str, int], set[str]] = {}
    for post in world.history.posts:
        ids.setdefault((post.task, post.config_id, post.generation), set()).add(post.id)
    for (_, config_id, generation), of_it in ids.items():
        if len(of_it) > 1:
            yield f"{config_id} was notified of {generation} under the ids {sorted(of_it)}."
    if len({id_ for of_it in ids.values() for id_ in of_it}) < len(ids):
        yield "Two events have one id."


def i16c_notification_is_sent_soon(world: "SimWorld") -> Iterator[str]:
    """Report a notification that is late although nothing has failed."""
    if not is_undisturbed(world, Fault.TIME_IS_SHORT) or world.receiver is not fine:
        return
    soon = FOUND_SECONDS if world.backlog_until else SOON_SECONDS
    for listening in world.history.listenings:
        for entry in _due(world, listening):
            told = [post.at for post in _posts(world, listening) if post.generation == entry.numbered.generation]
            known = max(entry.at, listening.at, world.backlog_until)
            if told and min(told) > known + soon:
                yield f"{listening.config.id} was notified of {entry.numbered.generation} {min(told) - known:.1f} s late."


def _posts(world: "SimWorld", listening: Listening) -> list[Post]:
    key = (listening.task, listening.config.id)
    return [post for post in world.history.posts if (post.task, post.config_id) == key]


def _due(world: "SimWorld", listening: Listening) -> list[Entry]:
    """Return the task's events that the webhook of this push config must receive."""
    entries = world.history.log.get(listening.task, [])
    return [
        entry
        for entry in entries
        if entry.numbered.generation > listening.after and _wants(listening.config.events, entry.numbered.event)
    ]


def _wants(events: PushEvents, event: object) -> bool:
    """Return True if the config selects the event. Written without the engine's function, to find errors of it."""
    if events is PushEvents.ALL or isinstance(event, TaskStatusUpdateEvent):
        return True
    return events is PushEvents.STATUS_AND_ARTIFACT and isinstance(event, TaskArtifactUpdateEvent)


PUSH_CHECKS = (i8_due_events_are_delivered, i9_attempts_of_event_have_one_id, i16c_notification_is_sent_soon)
