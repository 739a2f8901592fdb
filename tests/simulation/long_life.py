"""Scenarios of long retention, and of deployments with other settings."""

import asyncio
from datetime import timedelta

from aion_core.engine.agent_options import AnswerAs, ReplyAs, WhenBusy
from aion_core.errors import TooManyRequests
from tests.simulation.clients import Client
from tests.simulation.deployment import Deployment
from tests.simulation.scenarios import id_of, new_config, pause, scenario
from tests.simulation.world import SimWorld


@scenario("large payloads")
async def large(world: SimWorld) -> None:
    """Store large events in the bucket; one of their blobs may disappear."""
    ann = Client(world)
    task = await ann.send("heavy", "m-1", wait=world.choices.random() < 0.5)
    await asyncio.gather(ann.get(id_of(task)), Client(world, name="reader").listen(id_of(task)))
    await ann.rest(id_of(task))
    # Start a turn that reads the context's history: the turn must end even if the history has an unreadable event.
    await ann.rest(id_of(await ann.send("recalls", "m-2")))
    await ann.list(what="list all")


@scenario(
    "kept for an hour", weight=1, main=False, deployment=Deployment(retention=timedelta(hours=1), watch_seconds=5.0)
)
async def forgotten(world: SimWorld) -> None:
    """Extend a task's TTL by later messages; then it expires, and its items disappear late and one by one."""
    ann = Client(world)
    task = await ann.rest(id_of(await ann.send("asks often", "m-1", push=new_config(world, "p-1"))))
    await asyncio.sleep(world.choices.choice((60.0, 2400.0)))
    await ann.rest(id_of(await ann.send("that one", "m-2", task=id_of(task))))
    await asyncio.sleep(world.choices.choice((2000.0, 3000.0)))
    await ann.rest(id_of(await ann.send("and this", "m-3", task=id_of(task))))
    # Send m-2 again: the server must recognise the duplicate, although the message key may have expired.
    await asyncio.sleep(world.choices.choice((1.0, 700.0, 1500.0)))
    await ann.send("that one", "m-2", task=id_of(task))
    await ann.rest(id_of(task))
    await asyncio.sleep(world.choices.choice((1.0, 4000.0, 9000.0)))
    await asyncio.gather(ann.get(id_of(task)), ann.list())
    await ann.cancel(id_of(task))
    await asyncio.gather(ann.rest(id_of(await ann.send("steps", "m-4"))), ann.send("asks often", "m-1", wait=False))


@scenario("many tasks", deployment=Deployment(snapshot_every=3))
async def listed(world: SimWorld) -> None:
    """List tasks page by page while they change; meanwhile agents read the history of their context."""
    ann, eve = Client(world), Client(world, owner="eve")
    tasks = [await ann.send(world.choices.choice(("quick", "steps")), "m-0")]
    others = [
        ann.send(world.choices.choice(("quick", "recalls", last)), f"m-{number}", context=context, wait=False)
        for number, (context, last) in enumerate((("c", "steps"), ("c-2", "asks"), ("c-3", "asks"), ("c", "heavy")), 1)
    ]
    tasks += await asyncio.gather(*others, eve.send("quick", "m-1"), ann.list(), ann.list(context="c"))
    for task in tasks:
        if id_of(task):
            await ann.rest(id_of(task))
    await asyncio.gather(ann.list(what="list all"), ann.list(context="c", what="list all"), eve.list(what="list all"))


@scenario("an idempotency key")
async def idempotent(world: SimWorld) -> None:
    """Repeat a request with the same idempotency key; no request names a context."""
    clients = [Client(world, name=f"ann-{number}") for number in range(3)]
    text = world.choices.choice(("steps", "quick"))
    await asyncio.gather(
        *(client.send(text, "m-1", key="k-1", wait=number > 0) for number, client in enumerate(clients))
    )
    await pause(world, 0.1, 40.0)
    task = await clients[0].send(text, "m-1", key="k-1")
    await clients[0].rest(id_of(task))


@scenario("no more than two tasks", deployment=Deployment(open_tasks=2))
async def limited(world: SimWorld) -> None:
    """Start more tasks than the caller's limit of open tasks; after these tasks have ended, start others."""
    ann = Client(world)
    texts = [world.choices.choice(("steps", "slow", "asks")) for _ in range(3)]
    answers = await asyncio.gather(
        *(ann.send(text, f"m-{number}", context=f"c-{number}", wait=False) for number, text in enumerate(texts))
    )
    for task in answers:
        if id_of(task):
            await ann.rest(id_of(task))
            await ann.cancel(id_of(task))
    # Wait two minutes, because a task that was counted but never stored counts as open for one minute.
    await asyncio.sleep(130.0)
    task = await ann.send("quick", "m-9", context="c-9")
    if isinstance(task, TooManyRequests):
        world.history.surprises.append("I22: all tasks have ended, and no other is taken.")
    await ann.rest(id_of(task))


async def _reply(world: SimWorld) -> None:
    ann = Client(world)
    text = world.choices.choice(("quick", "quick", "steps", "heavy", "recalls"))
    if world.choices.random() < 0.5:
        await ann.stream(text, "m-1")
    else:
        await ann.send(text, "m-1", wait=world.choices.random() < 0.7)
    await pause(world, 0.0, 1.0)
    again, other = Client(world, name="ann-2"), Client(world, name="ann-3")
    await asyncio.gather(
        again.stream(text, "m-1") if world.choices.random() < 0.5 else again.send(text, "m-1"),
        other.send("quick", "m-2"),
    )
    for key in list(world.history.log):
        await ann.rest(key.task_id)


scenario("replies: auto", deployment=Deployment(reply=ReplyAs.AUTO))(_reply)
scenario("replies: message", deployment=Deployment(reply=ReplyAs.MESSAGE, answer=AnswerAs.ARTIFACT))(_reply)
scenario("answers in artifacts", deployment=Deployment(answer=AnswerAs.BOTH))(_reply)


@scenario("a deployment in the middle")
async def deployed(world: SimWorld) -> None:
    """Deploy new code and new settings between two steps, while turns of the old deployment run or wait."""
    ann, ben = Client(world), Client(world, name="ann-2")
    text = world.choices.choice(("slow", "steps", "asks"))
    task = await ann.send(text, "m-1", wait=False, push=new_config(world, "p-1"))
    await ann.send("quick", "m-2", wait=False)
    await pause(world, 0.0, 1.0, 12.0)
    world.deploy(
        when_busy=world.choices.choice(tuple(WhenBusy)),
        reply=world.choices.choice(tuple(ReplyAs)),
        answer=world.choices.choice(tuple(AnswerAs)),
        snapshot_every=3,
    )
    await asyncio.gather(ben.send("steps", "m-3", wait=False), ann.rest(id_of(task)))
    if text == "asks":
        await ann.send("that one", "m-4", task=id_of(task))
    for key in list(world.history.log):
        await ann.rest(key.task_id)
