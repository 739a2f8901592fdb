"""Delivery to hostile and failing receivers, with the production client and SSRF checks."""

import asyncio
import fnmatch
import json
import re
from collections.abc import Sequence
from functools import partial

import pytest

from aion_core.engine.delivery.records import Delivery
from aion_core.engine.queues import PushWakeUp
from aion_core.engine.runner import execution
from aion_core.push.delivery import PushDelivery
from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.request import render
from aion_core.table.keys import TaskKey
from tests.runtime.unit.push.pushing import LOOPBACK, Pushing, ids
from tests.support.clock import LoopClock
from tests.support.receiver import (
    Behaviour,
    ReceivedPost,
    WebhookReceiver,
    answers,
    dies,
    drips,
    holds,
    receiving,
    redirects,
    talks_nonsense,
)
from tests.support.rows import each_row
from tests.support.server import ROOT

OK = answers(200)
SECRET = "whsec_" + "QUJD" * 11
OTHER = "whsec_" + "REVG" * 11

# A task's events: 1 submitted, 2 working, 3 completed. By default webhooks receive the two status updates.


def goes_on(tries: int, delivery: Delivery) -> bool:
    return delivery.tries > tries or delivery.cursor == 3


def config(receiver: WebhookReceiver, **more: object) -> dict[str, object]:
    return {"id": "p", "url": receiver.url(), "token": SECRET, **more}


async def test_webhook_events_arrive_once_in_order_and_signed() -> None:
    async with receiving(OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        state = await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 3)
    said = [json.loads(post.body)["statusUpdate"] for post in receiver.posts]
    assert [each["status"]["state"] for each in said] == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert {(each["taskId"], each["contextId"]) for each in said} == {(task["id"], task["contextId"])}
    assert all(post.is_signed_by(SECRET) and not post.is_signed_by(OTHER) for post in receiver.posts)
    assert (state.tries, state.failure, state.dead, state.disabled) == (0, "", 0, False)


@each_row(
    ("bad", "failure"),
    [
        (answers(500), "HTTP 500"),
        (answers(400), "HTTP 400"),
        (dies, "the answer is not HTTP, or the connection ended before it"),
        (talks_nonsense, "the answer is not HTTP, or the connection ended before it"),
        (drips(b"HTTP/1.1 200 OK\r\nX-Slow: ", 0.05), "no answer in time"),
        (drips(b"", 0.05), "no answer in time"),
    ],
)  # fmt: skip
async def test_failed_webhook_event_is_retried_with_same_id(
    bad: Behaviour, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse several attempts: each retry has the same notification id."""
    loop_clock = LoopClock(monkeypatch)

    async def refuse(post: ReceivedPost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if failure == "no answer in time":
            loop_clock.move(3600)  # the post's time limit ends after the request's arrival
        await bad(post, reader, writer)

    async with receiving(refuse, refuse, OK) as receiver:
        pushing = Pushing(seconds=3600)
        task = await pushing.send(config(receiver))
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        first = await pushing.rests(task, lambda delivery: delivery.tries == 1)
        assert (first.cursor < 2, first.failure, first.next_at is None) == (True, failure, False)
        await pushing.later(5, task)
        second = await pushing.rests(task, lambda delivery: delivery.tries == 2)
        assert (second.cursor < 2, second.failure) == (True, failure)
        await pushing.later(300, task)
        last = await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 2, 2, 3)
    assert len({post.body for post in receiver.posts[:3]}) == 1
    assert all(post.is_signed_by(SECRET) for post in receiver.posts[-2:])
    assert (last.tries, last.failure, last.next_at) == (0, "", None)


async def test_webhook_receives_all_events_after_refused_connections() -> None:
    """Stop the receiver, then start it: refused connections counted as attempts, and no event is lost."""
    async with receiving(OK) as down:
        pass
    pushing = Pushing()
    task = await pushing.send(config(down))
    state = await pushing.rests(task, lambda delivery: delivery.tries == 1)
    assert (state.cursor < 2, state.failure) == (True, "no connection")
    await pushing.later(5, task)
    await pushing.rests(task, lambda delivery: delivery.tries == 2)
    assert down.ids == []
    async with receiving(OK, port=down.port) as up:
        await pushing.later(300, task)
        state = await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert up.ids == ids(task, 2, 3)
    assert (state.tries, state.failure, state.next_at, state.dead, state.due_at) == (0, "", None, 0, None)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_failure_without_second_request(status: int) -> None:
    """Redirect to the metadata service or to another server: the client sends no second request."""
    async with receiving(OK) as neighbour, receiving(redirects(status, neighbour.url()), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        state = await pushing.rests(task, lambda delivery: delivery.tries == 1)
        assert (state.failure, state.cursor < 2, state.disabled) == (f"HTTP {status}", True, False)
        await pushing.later(5, task)
        state = await pushing.rests(task, lambda delivery: delivery.cursor == 3)
        assert (state.tries, state.failure) == (0, "")
    assert receiver.ids == ids(task, 2, 2, 3)
    assert neighbour.connections == 0


async def test_webhook_responding_with_410_gets_no_more_posts() -> None:
    """Answer one post with status 410 (Gone)."""
    async with receiving(answers(410), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        state = await pushing.rests(task, lambda delivery: delivery.disabled)
        await pushing.later(100_000, task)
        after = await pushing.rests(task, lambda delivery: delivery.disabled)
    assert receiver.ids == ids(task, 2)
    assert after == state
    assert (state.failure, state.cursor < 2, state.dead, state.next_at) == ("HTTP 410", True, 0, None)
    assert state.due_at is None, "nobody looks after it any more"


async def test_webhook_created_again_after_410_gets_undelivered_events() -> None:
    async with receiving(answers(410), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        await pushing.rests(task, lambda delivery: delivery.disabled)
        await pushing.rpc("CreateTaskPushNotificationConfig", {**config(receiver), "taskId": task["id"]})
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 2, 3)


async def test_retry_after_longer_than_schedule_is_honoured() -> None:
    """Answer with 429 and a Retry-After longer than the schedule's delay: the next attempt waits that long."""
    async with receiving(answers(429, Retry_After="600"), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        state = await pushing.rests(task, lambda delivery: delivery.tries == 1)
        assert (state.failure, state.cursor < 2) == ("HTTP 429", True)
        assert state.next_at is not None
        # Allow a difference of a millisecond, because times are stored in whole milliseconds.
        assert (state.next_at - pushing.clock.now()).total_seconds() == pytest.approx(600, abs=0.001)
        await pushing.later(599, task)
        assert receiver.ids == ids(task, 2)
        await pushing.later(1, task)
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 2, 3)


async def test_dns_rebinding_is_blocked() -> None:
    """The host's name has an allowed address at the first attempt, and also a private one at the second."""
    addresses = [["127.0.0.1"], ["127.0.0.1", "10.0.0.7"], ["169.254.169.254"], ["127.0.0.1"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses.pop(0) if len(addresses) > 1 else addresses[0]

    async with receiving(answers(503), OK) as receiver:
        pushing = Pushing(resolve=resolve)
        task = await pushing.send(config(receiver, url=receiver.url(host="hooks.example.org")))
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        await pushing.later(5, task)
        state = await pushing.rests(task, lambda delivery: delivery.tries == 2)
        assert state.failure == "blocked: its host is at an address that is not public."
        await pushing.later(300, task)
        assert (await pushing.rests(task, lambda delivery: delivery.tries == 3)).cursor < 2
        assert receiver.connections == 1
        await pushing.later(1800, task)
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 2, 3)


async def test_webhook_deleted_between_attempts_gets_no_post() -> None:
    async with receiving(answers(503), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        await pushing.rpc("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "p"})
        await pushing.later(5, task)
        await pushing.later(100_000, task)
        assert await pushing.state(task) == []
    assert receiver.ids == ids(task, 2)


async def test_webhook_deleted_during_post_gets_no_more() -> None:
    """Delete the config while a post runs: this post ends, and no further event is posted."""
    release = asyncio.Event()
    async with receiving(holds(release), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        await receiver.heard(1)
        await pushing.rpc("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "p"})
        release.set()
        await pushing.later(100_000, task)
        assert await pushing.state(task) == []
        await pushing.sweep()
        assert await pushing.expired_timers() == []
    assert receiver.ids == ids(task, 2)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_webhook_deleted_during_name_resolution_gets_one_post(how: str) -> None:
    """Delete the config after its claim but before the connection; then a replacement gets later events."""
    pushing: Pushing

    async def resolve(host: str, port: int) -> Sequence[str]:
        if names.pop():
            params = {"taskId": task_id, "id": "p"}
            await pushing.rpc("DeleteTaskPushNotificationConfig", params)
            if how == "replaced":
                await pushing.rpc("CreateTaskPushNotificationConfig", {**params, "url": other.url(), "token": OTHER})
                registered.extend(each.cursor for each in await pushing.state(asking))
        return ["127.0.0.1"]

    names, registered = [False, True], list[int]()
    async with receiving(OK) as receiver, receiving(OK) as other:
        pushing = Pushing(resolve=resolve)
        asking = await pushing.send(None, "ask")
        task_id = asking["id"]
        await pushing.rpc(
            "CreateTaskPushNotificationConfig",
            {**config(receiver, url=receiver.url(host="hooks.example.org")), "taskId": task_id},
        )
        await pushing.send(None, "yes", taskId=task_id)
        await receiver.heard(1)
        await pushing.later(100_000, asking)
        await pushing.sweep()
        if how == "replaced":
            await pushing.rests(asking, lambda delivery: delivery.cursor == 5)
    assert len(receiver.posts) == 1
    # The replaced config may be registered after event 4 or after event 5: it receives event 5, or no event.
    assert set(other.ids) <= set(ids(asking, 5))
    assert other.posts or how == "deleted" or registered == [5]
    assert how == "replaced" or not other.posts


async def test_task_whose_push_configs_are_deleted_sets_no_timers() -> None:
    """Delete the only config: the next event still enqueues a message, later events neither that nor a timer."""
    async with receiving(OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(None, "ask")
        await pushing.rpc("CreateTaskPushNotificationConfig", {**config(receiver), "taskId": task["id"]})
        await pushing.quiet()
        await pushing.rpc("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "p"})
        enqueued = pushing.count_wake_ups()
        answering = asyncio.create_task(pushing.send(None, "work", taskId=task["id"]))
        await pushing.agent.works.wait()
        await pushing.quiet()
        assert [wake_up.generation for wake_up in enqueued] == [4]
        pushing.agent.go.set()
        assert (await answering)["status"]["state"] == "TASK_STATE_COMPLETED"
        await pushing.quiet()
        assert [wake_up.generation for wake_up in enqueued] == [4]
        assert await pushing.expired_timers() == []
    assert receiver.posts == []


async def test_webhooks_are_signed_with_new_and_previous_secret() -> None:
    """Sign with the new and the previous secret, because the receiver may know only one of them."""
    async with receiving(answers(503), OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        changed = await pushing.rpc(
            "CreateTaskPushNotificationConfig", {**config(receiver, token=OTHER), "taskId": task["id"]}
        )
        assert changed["token"] == OTHER
        await pushing.later(5, task)
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
        assert receiver.ids == ids(task, 2, 2, 3)
        before, *after = receiver.posts
        assert (before.is_signed_by(SECRET), before.is_signed_by(OTHER)) == (True, False)
        assert [(post.is_signed_by(OTHER), post.is_signed_by(SECRET)) for post in after] == [(True, True)] * 2
        assert len({post.body for post in receiver.posts[:2]}) == 1
        assert not any(secret in str(post) for post in receiver.posts for secret in (SECRET, OTHER))


async def test_previous_webhook_secret_stops_signing_after_a_day() -> None:
    """Retries follow this rule too, and registering the same secret again does not prolong the day."""
    async with receiving(answers(500)) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        state = await pushing.rests(task, lambda delivery: delivery.tries == 1)
        change = {**config(receiver, token=OTHER), "taskId": task["id"]}
        await pushing.rpc("CreateTaskPushNotificationConfig", change)
        await pushing.rests(task, lambda delivery: delivery.tries == 1 and len(receiver.posts) == 2)
        changed = pushing.clock.now()
        pushing.clock.move(3600)
        await pushing.rpc("CreateTaskPushNotificationConfig", change)
        state = await pushing.rests(task, lambda delivery: len(receiver.posts) > 2 and delivery.tries == 1)
        while (pushing.clock.now() - changed).total_seconds() < 86_400:
            assert state.next_at is not None
            await pushing.later((state.next_at - pushing.clock.now()).total_seconds(), task)
            state = await pushing.rests(task, partial(goes_on, state.tries))
    within: list[ReceivedPost] = []
    after: list[ReceivedPost] = []
    for post in receiver.posts[1:]:
        is_over = int(post.headers["webhook-timestamp"]) >= changed.timestamp() + 86_400
        (after if is_over else within).append(post)
    assert within
    assert after
    assert {(post.is_signed_by(OTHER), post.is_signed_by(SECRET)) for post in within} == {(True, True)}
    assert {(post.is_signed_by(OTHER), post.is_signed_by(SECRET)) for post in after} == {(True, False)}


async def test_undeliverable_event_does_not_block_later_events(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a day of failed attempts the event is a dead letter, and later events are delivered."""
    async with receiving(*[answers(500)] * 8, OK) as receiver:
        pushing = Pushing()
        task = await pushing.send(config(receiver))
        began = pushing.clock.now()
        state: Delivery = await pushing.rests(task, lambda delivery: delivery.tries == 1)
        while state.next_at is not None:
            await pushing.later((state.next_at - pushing.clock.now()).total_seconds(), task)
            tries = state.tries
            state = await pushing.rests(task, partial(goes_on, tries))
    assert (pushing.clock.now() - began).total_seconds() >= 24 * 3600
    assert receiver.ids == [*ids(task, 2) * 8, *ids(task, 3)]
    assert (state.cursor, state.dead, state.dead_from) == (3, 1, 2)
    (apart,) = re.findall(r'\$\.message != "(.*)" }', (ROOT / "infra" / "operations.yaml").read_text())
    said = [record.message for record in caplog.records]
    assert len(fnmatch.filter(said, apart)) == 1, "it is no error of the function's, whose alarm leaves its line out"


async def test_hanging_webhook_delays_no_other_push_config() -> None:
    release = asyncio.Event()
    async with receiving(holds(release)) as hung, receiving(OK) as well:
        pushing = Pushing(seconds=30)
        task = await pushing.send(config(hung))
        await pushing.rpc("CreateTaskPushNotificationConfig", {**config(well), "id": "q", "taskId": task["id"]})
        follow = await pushing.send(config(well), "again", contextId=task["contextId"])
        await pushing.rests(follow, lambda delivery: delivery.cursor == 3)
        assert well.ids == ids(follow, 2, 3)
        assert len(hung.posts) == 1
        release.set()
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert hung.ids == ids(task, 2, 3)


async def test_sweep_delivers_events_whose_queue_messages_are_lost() -> None:
    lost = list[PushWakeUp]()

    async def lose(wake_up: PushWakeUp) -> None:
        lost.append(wake_up)

    async with receiving(OK) as receiver:
        pushing = Pushing()
        push = pushing.parts.push
        assert push is not None
        push.queue.handled_by(lose)
        task = await pushing.send(config(receiver))
        await pushing.quiet()
        assert lost
        assert receiver.ids == []
        push.queue.handled_by(push.delivery.deliver)
        await pushing.sweep()
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 3)


async def test_stopping_process_leaves_events_to_next_process() -> None:
    """The process stops during a post: it begins no other post, and releases its claim for the next process."""
    release, stopping = asyncio.Event(), asyncio.Event()
    wake_ups = list[PushWakeUp]()

    async def keep(wake_up: PushWakeUp) -> None:
        wake_ups.append(wake_up)

    async with receiving(holds(release), OK) as receiver:
        pushing = Pushing(seconds=60)
        push, clock = pushing.parts.push, pushing.clock
        assert push is not None
        push.queue.handled_by(keep)
        webhooks = PinnedWebhookClient(LOOPBACK, clock, seconds=60)
        store, stops = pushing.parts.store, stopping.is_set
        process = PushDelivery(store, push.configs, push.queue, webhooks, render, clock, stops=stops)
        task = await pushing.send(config(receiver))
        key = TaskKey("anonymous", task["id"])
        delivering = asyncio.create_task(process.deliver(PushWakeUp(key)))
        await receiver.heard(1)
        stopping.set()
        release.set()
        await delivering
        assert receiver.ids == ids(task, 2)
        await pushing.quiet()
        await push.delivery.deliver(wake_ups[-1])
    assert receiver.ids == ids(task, 2, 3)


async def test_slow_webhook_does_not_delay_its_task() -> None:
    """A task with a webhook takes no time of the service's clock, and makes the same task store calls as one without.

    The clock moves only on request, so a task that waits for its webhook would never end.
    """
    release = asyncio.Event()
    async with receiving(holds(release)) as hung:
        pushing = Pushing(seconds=60)
        began, asked = pushing.clock.now(), pushing.count_calls()
        calls: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
        for number in range(4):
            for told in (False, True):
                asked.clear()
                task = await pushing.send(config(hung) if told else None, f"{number}-{told}")
                assert task["status"]["state"] == "TASK_STATE_COMPLETED"
                calls[told].add(tuple(asked))
        assert (pushing.clock.now() - began).total_seconds() == 0
        assert calls[True] == calls[False]
        assert hung.posts
        assert not release.is_set()
        pushing.clock.move(20)
        release.set()
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_webhook_receives_long_task_from_its_first_event(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A long task has a snapshot, at which readers start; a webhook must still receive every event."""
    monkeypatch.setattr(execution, "SNAPSHOT_EVERY", 1)
    async with receiving(answers(500), OK) as receiver:
        pushing = Pushing()
        if method == "SendMessage":
            task = await pushing.send(config(receiver))
        else:
            message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
            settings = {"blocking": True, "pushNotificationConfig": config(receiver)}
            task = await pushing.rpc(method, {"message": message, "configuration": settings})
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        await pushing.later(5, task)
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 2, 3)
    assert receiver.posts[0].body == receiver.posts[1].body
