"""Scenarios: short scripts of clients; each exercises one guarantee of the engine."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aion_core.engine.agent_options import PushEvents, WhenBusy
from aion_core.engine.push_config import PushConfig
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.protocol.types import Task
from tests.simulation.clients import Client
from tests.simulation.deployment import Deployment
from tests.simulation.receivers import RECEIVERS
from tests.simulation.world import SimWorld

Story = Callable[[SimWorld], Awaitable[Any]]


@dataclass(frozen=True)
class SimScenario:
    """Script of clients, and the deployment that serves them."""

    name: str
    tell: Story
    deployment: Deployment = Deployment()  # noqa: RUF009  # frozen
    weight: int = 2
    """Relative probability of this scenario."""
    main: bool = True
    """True if tests crash a process at each side effect of this scenario."""


SCENARIOS: dict[str, SimScenario] = {}


def scenario(name: str, **options: Any) -> Callable[[Story], Story]:
    """Register the function as the scenario of this name."""

    def keep(tell: Story) -> Story:
        SCENARIOS[name] = SimScenario(name, tell, **options)
        return tell

    return keep


def id_of(answer: Any) -> str:
    return answer.id if isinstance(answer, Task) else ""


async def pause(world: SimWorld, *seconds: float) -> None:
    await asyncio.sleep(world.choices.choice(seconds))


@scenario("send and wait", weight=3)
async def send_and_wait(world: SimWorld) -> None:
    ann = Client(world)
    task = await ann.send(world.choices.choice(("steps", "quick", "chatters", "goes on", "ends twice")), "m-1")
    await ann.rest(id_of(task))


@scenario("stream", weight=3)
async def stream(world: SimWorld) -> None:
    await Client(world).stream(world.choices.choice(("steps", "chatters", "goes on", "heavy")), "m-1")


@scenario("send and go", weight=3)
async def send_and_go(world: SimWorld) -> None:
    ann = Client(world)
    task = await ann.send(world.choices.choice(("steps", "slow", "says nothing")), "m-1", wait=False)
    await ann.rest(id_of(task))


@scenario("behind a backlog", weight=2)
async def behind_a_backlog(world: SimWorld) -> None:
    """Send messages while no worker is free. Some wake-up messages are lost, and the rest is worked off slowly."""
    ann, seconds, pace = Client(world), world.choices.choice((20.0, 100.0, 700.0)), world.choices.choice((0.1, 2.0))
    world.backlog_until = world.loop.now + seconds + 8 * pace
    world.queue.hold(WakeUp, seconds, pace)
    tasks = await asyncio.gather(
        *(
            Client(world, name=f"ann-{number}").send("quick", f"m-{number}", context=f"c-{number}", wait=False)
            for number in range(6)
        )
    )
    await asyncio.sleep(1.0)
    world.lost_messages = world.choices.choice((0, 0, 1, 2, 6))
    world.queue.lose(world.lost_messages)
    for task in tasks:
        await ann.rest(id_of(task))


@scenario("one messageId, many sends")
async def repeats(world: SimWorld) -> None:
    """Send a message twice at the same instant, and again later."""
    clients = [Client(world, name=f"ann-{number}") for number in range(3)]
    ways = [
        clients[0].send("steps", "m-1"),
        clients[1].send("steps", "m-1", wait=False),
        clients[2].stream("steps", "m-1"),
    ]
    await asyncio.gather(*ways[: world.choices.choice((2, 3))])
    for left in ways:
        left.close()
    await pause(world, 0.1, 40.0)
    task = await clients[0].send("steps", "m-1")
    await clients[0].rest(id_of(task))


@scenario("question and answer", weight=3, deployment=Deployment(snapshot_every=4))
async def question(world: SimWorld) -> None:
    """Send two answers to an interrupt, sometimes at the same time, with the same messageId or with different ones."""
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send(
        world.choices.choice(("asks", "asks twice")),
        "m-1",
        wait=world.choices.random() < 0.5,
    )
    task = await ann.rest(id_of(task))
    if not isinstance(task, Task):
        return
    same = world.choices.random() < 0.5
    first = ann.send("that one", "m-2", task=task.id, wait=world.choices.random() < 0.5)
    second = ben.send("that one", "m-2" if same else "m-3", task=task.id)
    await (asyncio.gather(first, second) if world.choices.random() < 0.6 else _after(first, second))
    task = await ann.rest(task.id)
    if isinstance(task, Task) and world.choices.random() < 0.5:
        await ann.stream("and this one", "m-4", task=task.id)
        await ann.rest(task.id)


async def _after(first: Any, second: Any) -> None:
    await first
    await second


@scenario("reads on over a question", main=False)
async def reads_on(world: SimWorld) -> None:
    """Subscribe before an interrupt: the stream continues after the answer, or ends after five idle minutes."""
    ann, reader = Client(world), Client(world, name="reader")
    task = await ann.send(world.choices.choice(("asks", "asks", "asks twice")), "m-1", wait=False)
    if not id_of(task):
        return
    await pause(world, 0.0, 0.1, 3.0)

    async def answers() -> None:
        await pause(world, 0.5, 20.0, 290.0, 400.0)
        await ann.rest(id_of(task))
        await ann.send("that one", "m-2", task=id_of(task))

    await asyncio.gather(reader.listen(id_of(task)), answers())
    await ann.rest(id_of(task))


@scenario("answered in the context")
async def answered_in_context(world: SimWorld) -> None:
    """Send two messages without a taskId to a context whose task is interrupted."""
    ann = Client(world)
    task = await ann.rest(id_of(await ann.send("asks", "m-1")))
    if isinstance(task, Task):
        await asyncio.gather(ann.send("that one", "m-2"), Client(world, name="ann-2").send("quick", "m-3"))
        await ann.rest(task.id)


async def _double(world: SimWorld) -> None:
    """Send several messages to one context; some of them name its running task."""
    ann = Client(world)
    first = await ann.send(world.choices.choice(("slow", "steps", "raises")), "m-1", wait=False)
    await pause(world, 0.0, 0.05, 3.0, 12.0)
    others = []
    for number in range(world.choices.randint(1, 3)):
        to_task = world.choices.random() < 0.5
        ben = Client(world, name=f"ann-{number + 2}")
        others.append(
            ben.send(
                world.choices.choice(("quick", "steps")),
                f"m-{number + 2}",
                wait=world.choices.random() < 0.6,
                task=id_of(first) if to_task else "",
            )
        )
    answers = await asyncio.gather(*others)
    for answer in [first, *answers]:
        if id_of(answer):
            await ann.rest(id_of(answer))


scenario("double texting: enqueue", deployment=Deployment(when_busy=WhenBusy.ENQUEUE), weight=3)(_double)
scenario("double texting: reject", deployment=Deployment(when_busy=WhenBusy.REJECT))(_double)
scenario("double texting: interrupt", deployment=Deployment(when_busy=WhenBusy.INTERRUPT), weight=3)(_double)


@scenario("follow-up at the end", weight=3)
async def follow_up_at_the_end(world: SimWorld) -> None:
    """Send a message to an almost finished task."""
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send("steps", "m-1", wait=False)

    async def more() -> None:
        await asyncio.sleep(2.0 + world.choices.random() * 0.2)
        again = (
            [Client(world, name="ann-3").send("quick", "m-2", task=id_of(task))] if world.choices.random() < 0.4 else []
        )
        await asyncio.gather(ben.send("quick", "m-2", task=id_of(task), wait=world.choices.random() < 0.5), *again)

    await asyncio.gather(more(), ann.rest(id_of(task)))
    await ann.rest(id_of(task))


@scenario("cancel", weight=3)
async def cancel(world: SimWorld) -> None:
    """Cancel a task before its start, in the middle, ten times, or at its completion."""
    ann, ben = Client(world), Client(world, name="ann-2")
    text = world.choices.choice(("slow", "steps", "stubborn", "sour", "asks", "blocks"))
    task = await ann.send(text, "m-1", wait=False)
    if not id_of(task):
        return
    times = world.choices.choice((1, 1, 2, 10))
    await pause(world, 0.0, 0.02, 0.3, 1.0, 2.0, 2.05, 10.0, 30.0)
    await asyncio.gather(*(ben.cancel(task.id) for _ in range(times)))
    await ann.rest(task.id)
    await ann.rest(id_of(await ann.send("steps", "m-2")))


@scenario("cancel what waits")
async def cancel_what_waits(world: SimWorld) -> None:
    """Cancel a queued task, while another task of its context runs."""
    ann, ben = Client(world), Client(world, name="ann-2")
    first = await ann.send(world.choices.choice(("slow", "steps", "asks")), "m-1", wait=False)
    second = await ann.send("quick", "m-2", wait=False)
    third = await ann.send("steps", "m-3", wait=False)
    await pause(world, 0.0, 0.5, 2.0, 12.0)
    await asyncio.gather(
        ben.cancel(id_of(second)), *([ann.cancel(id_of(first))] if world.choices.random() < 0.5 else [])
    )
    # Cancel the first task, because the other tasks wait for it if it requires input.
    await ann.rest(id_of(first))
    await ann.cancel(id_of(first))
    for task in (second, third):
        await ann.rest(id_of(task))


@scenario("readers elsewhere", weight=3)
async def readers(world: SimWorld) -> None:
    """Subscribe to a task in other processes, after different events; one of the clients leaves."""
    ann = Client(world)
    text = world.choices.choice(("steps", "slow", "chatters", "heavy"))
    task = await ann.send(text, "m-1", wait=False)
    if not id_of(task):
        return

    async def reads(number: int) -> None:
        await pause(world, 0.0, 0.01, 0.3, 2.0, 2.1)
        cursor = world.choices.choice(("", "", "0", "1", "2", "99", "3.1.7", "2.9.1", "nonsense", "-1", "1.2"))
        reader = Client(world, name=f"reader-{number}")
        if number == 1 and world.choices.random() < 0.7:
            hearing = await reader.listen(id_of(task), leave_after=world.choices.randint(1, 5))
            await pause(world, 0.0, 0.05, 0.1, 0.5, 3.0)
            if world.choices.random() < 0.6:
                await reader.listen(id_of(task), after=hearing)
        else:
            await reader.listen(id_of(task), cursor=cursor, slow=world.choices.choice((0.0, 0.0, 0.7)))

    await asyncio.gather(*(reads(number) for number in range(world.choices.randint(1, 3))), ann.rest(id_of(task)))


@scenario("leaves in the middle")
async def leaves(world: SimWorld) -> None:
    """Leave a stream, then reconnect with the stream's cursor, or never reconnect."""
    ann = Client(world)
    task_id = await ann.stream(
        world.choices.choice(("steps", "chatters", "slow")), "m-1", leave_after=world.choices.randint(1, 9)
    )
    await pause(world, 0.0, 0.05, 0.1, 0.5, 5.0, 70.0)
    if not task_id:
        return
    if world.choices.random() < 0.7:
        last = [hearing for hearing in world.history.hearings if hearing.client == "ann"][-1]
        await ann.listen(task_id, after=last)
    await ann.rest(task_id)


@scenario("agents that misbehave")
async def misbehaving(world: SimWorld) -> None:
    """Run bad agents: raise, emit nothing, emit after the end, end twice, block, ignore a cancellation."""
    ann = Client(world)
    texts = ("raises", "says nothing", "goes on", "ends twice", "blocks", "stubborn", "sour")
    text = world.choices.choice(texts)
    if world.choices.random() < 0.5:
        await ann.stream(text, "m-1")
    else:
        await ann.rest(id_of(await ann.send(text, "m-1")))
    await ann.rest(id_of(await ann.send("quick", "m-2")))


@scenario("past fifteen minutes", weight=1, main=False, deployment=Deployment(watch_seconds=5.0))
async def long(world: SimWorld) -> None:
    """Run a turn of forty minutes, in steps or in one indivisible step."""
    ann = Client(world)
    text = world.choices.choice(("long", "long", "lumps", "deaf"))
    if world.choices.random() < 0.5:
        task_id = await ann.stream(text, "m-1")
    else:
        task_id = id_of(await ann.send(text, "m-1", wait=world.choices.random() < 0.5))
    await ann.rest(task_id)


@scenario("an agent that hangs", weight=1, main=False, deployment=Deployment(watch_seconds=5.0))
async def hangs(world: SimWorld) -> None:
    ann = Client(world)
    task = await ann.send("hangs", "m-1", wait=False)
    other = await Client(world, name="ann-2").send("quick", "m-2", wait=False)
    await ann.rest(id_of(task))
    await ann.rest(id_of(other))


@scenario("two contexts, two owners")
async def strangers(world: SimWorld) -> None:
    """Send one messageId as two owners and in two contexts; one owner reads, cancels and answers the other's task."""
    ann, eve = Client(world), Client(world, owner="eve")
    mine, other, hers = await asyncio.gather(
        ann.send("steps", "m-1"), ann.send("steps", "m-1", context="c-2", wait=False), eve.send("quick", "m-1")
    )
    await asyncio.gather(eve.get(id_of(mine)), eve.cancel(id_of(mine)), eve.send("hi", "m-9", task=id_of(mine)))
    await asyncio.gather(ann.rest(id_of(mine)), ann.rest(id_of(other)), eve.rest(id_of(hers)))


def new_config(world: SimWorld, config_id: str) -> PushConfig:
    return PushConfig(config_id, "https://hooks.test/", events=world.choices.choice(list(PushEvents)))


@scenario("told of a task", weight=3)
async def told(world: SimWorld) -> None:
    """Send a message without waiting; the webhook receives every notification, and answers with successes or errors."""
    world.receiver = world.choices.choice(RECEIVERS)
    ann = Client(world)
    text = world.choices.choice(("quick", "steps", "slow", "raises", "goes on"))
    push = new_config(world, "p-1")
    task = await ann.send(text, "m-1", wait=world.choices.random() < 0.3, push=push)
    if id_of(task) and world.choices.random() < 0.4:
        await ann.register(task.id, new_config(world, "p-2"))
    await ann.rest(id_of(task))


@scenario("told behind a backlog", main=False)
async def told_behind_a_backlog(world: SimWorld) -> None:
    """Notify webhooks while no process delivers. Some wake-up messages are lost, and the rest is worked off slowly."""
    seconds, pace = world.choices.choice((20.0, 100.0, 700.0)), world.choices.choice((0.1, 2.0))
    world.backlog_until = world.loop.now + seconds + 40 * pace
    world.queue.hold(PushWakeUp, seconds, pace)

    async def listens(number: int) -> None:
        ann = Client(world, name=f"ann-{number}")
        push = new_config(world, f"p-{number}")
        await ann.rest(id_of(await ann.send("quick", f"m-{number}", context=f"c-{number}", wait=False, push=push)))

    await asyncio.gather(*map(listens, range(6)))
    await asyncio.sleep(1.0)
    world.lost_messages = world.choices.choice((0, 0, 1, 12, 40))
    world.queue.lose(world.lost_messages)


@scenario("begins to listen late", weight=3)
async def late(world: SimWorld) -> None:
    """Register, replace and delete push configs while the task's events are recorded."""
    world.receiver = world.choices.choice(RECEIVERS)
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send(world.choices.choice(("steps", "slow", "chatters")), "m-1", wait=False)
    if not id_of(task):
        return

    async def listens(config_id: str) -> None:
        await pause(world, 0.0, 0.02, 1.0, 2.0, 2.05)
        config = new_config(world, config_id)
        await ben.register(task.id, config)
        await pause(world, 0.01, 0.5, 5.0)
        if world.choices.random() < 0.3:
            await ben.register(task.id, config)
        elif world.choices.random() < 0.3:
            await ben.unregister(task.id, config_id)

    await asyncio.gather(listens("p-1"), listens("p-2"), ann.rest(task.id))
    await ann.rest(task.id)


@scenario("told of a question", main=False)
async def told_of_a_question(world: SimWorld) -> None:
    """Notify webhooks of an interrupt, an answer with another push config, a cancellation, and a further message."""
    world.receiver = world.choices.choice(RECEIVERS)
    ann, ben = Client(world), Client(world, name="ann-2")
    text = world.choices.choice(("asks", "asks", "slow"))
    task = await ann.send(text, "m-1", wait=text == "asks", push=new_config(world, "p-1"))
    if not id_of(task):
        return
    if text == "asks":
        await ann.rest(task.id)
    await ann.send("that one", "m-2", wait=False, task=task.id, push=new_config(world, "p-2"))
    await pause(world, 0.0, 0.05, 2.0)
    if world.choices.random() < 0.4:
        await ben.cancel(task.id)
    await ann.rest(task.id)


DELEGATES = Deployment(delegates=True)


@scenario("calls a remote agent", weight=3, deployment=DELEGATES)
async def calls(world: SimWorld) -> None:
    ann = Client(world)
    task = await ann.send("calls", "m-1", wait=world.choices.random() < 0.5)
    await ann.rest(id_of(task))


@scenario(
    "calls a remote agent for long", weight=1, main=False, deployment=Deployment(delegates=True, watch_seconds=5.0)
)
async def calls_for_long(world: SimWorld) -> None:
    ann = Client(world)
    await ann.rest(id_of(await ann.send("calls for long", "m-1", wait=False)))


@scenario("cancels a call", weight=3, deployment=DELEGATES)
async def cancels_a_call(world: SimWorld) -> None:
    """Cancel a task at any moment of its remote call, so that the remote task must be canceled too."""
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send("calls for long", "m-1", wait=False)
    if not id_of(task):
        return
    await pause(world, 0.0, 0.01, 0.02, 0.05, 0.3, 5.0, 40.0)
    await ben.cancel(task.id)
    await ann.rest(task.id)


@scenario("texts again during a call", deployment=Deployment(delegates=True, when_busy=WhenBusy.INTERRUPT))
async def texts_again(world: SimWorld) -> None:
    ann, ben = Client(world), Client(world, name="ann-2")
    first = await ann.send("calls for long", "m-1", wait=False)
    await pause(world, 0.0, 0.05, 0.3, 5.0)
    second = await ben.send("quick", "m-2", wait=False)
    await ann.cancel(id_of(first))
    for task in (first, second):
        await ann.rest(id_of(task))


@scenario("waits for a time", weight=3)
async def waits(world: SimWorld) -> None:
    """Run a turn that waits without a process, for seconds or for longer than a message can be delayed."""
    ann = Client(world)
    text = world.choices.choice(("waits", "waits", "waits for long"))
    if world.choices.random() < 0.3:
        await ann.rest(await ann.stream(text, "m-1"))
    else:
        await ann.rest(id_of(await ann.send(text, "m-1", wait=world.choices.random() < 0.3)))


@scenario("cancels a wait", weight=2)
async def cancels_a_wait(world: SimWorld) -> None:
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send("waits", "m-1", wait=False)
    if not id_of(task):
        return
    await pause(world, 0.0, 0.05, 0.3, 5.0, 8.0, 8.05, 20.0, 47.0)
    await ben.cancel(task.id)
    await ann.rest(task.id)
    await ann.rest(id_of(await ann.send("steps", "m-2")))


async def _during_a_wait(world: SimWorld) -> None:
    """Send messages to a context whose turn waits; some of them name its task."""
    ann, ben = Client(world), Client(world, name="ann-2")
    first = await ann.send("waits", "m-1", wait=False)
    await pause(world, 0.0, 0.3, 3.0, 7.95, 20.0)
    to_task = id_of(first) if world.choices.random() < 0.5 else ""
    second = await ben.send("quick", "m-2", wait=world.choices.random() < 0.5, task=to_task)
    for task in (first, second):
        if id_of(task):
            await ann.rest(id_of(task))


scenario("texts during a wait: enqueue", deployment=Deployment(when_busy=WhenBusy.ENQUEUE))(_during_a_wait)
scenario("texts during a wait: reject", deployment=Deployment(when_busy=WhenBusy.REJECT))(_during_a_wait)
scenario("texts during a wait: interrupt", deployment=Deployment(when_busy=WhenBusy.INTERRUPT))(_during_a_wait)


@scenario("awaits a remote agent", weight=3, deployment=Deployment(delegates=True, watch_seconds=5.0))
async def awaits(world: SimWorld) -> None:
    """Call a remote agent for half a second, for some seconds, and for a quarter of an hour. It may restart meanwhile."""
    ann = Client(world)
    begin = world.choices.choice((0.0, 0.0, 1.0, 15.0, 100.0, 800.0))
    if begin:
        world.remote.down = begin, begin + world.choices.choice((5.0, 60.0, 300.0))
    if world.choices.random() < 0.2:
        await ann.rest(await ann.stream("awaits", "m-1"))
    else:
        await ann.rest(id_of(await ann.send("awaits", "m-1", wait=world.choices.random() < 0.3)))


@scenario("cancels what awaits a remote agent", weight=2, deployment=Deployment(delegates=True, watch_seconds=5.0))
async def cancels_what_awaits(world: SimWorld) -> None:
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send("awaits", "m-1", wait=False)
    if not id_of(task):
        return
    await pause(world, 0.3, 2.0, 7.0, 20.0, 26.0, 60.0, 400.0)
    await ben.cancel(task.id)
    await ann.rest(task.id)
