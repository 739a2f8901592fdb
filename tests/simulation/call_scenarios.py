"""Scenarios of turns that await a remote agent which reports the ends of its tasks, or goes for good."""

import math

from tests.simulation.clients import Client
from tests.simulation.deployment import Deployment
from tests.simulation.scenarios import id_of, pause, scenario
from tests.simulation.world import SimWorld

CALLED_BACK = Deployment(delegates=True, watch_seconds=5.0, calls_back=True)
PATIENCE = 3600.0


def restarts(world: SimWorld) -> None:
    """Let the remote agent restart at some moment of half of the schedules."""
    begin = world.choices.choice((0.0, 0.0, 0.0, 1.0, 15.0, 800.0))
    if begin:
        world.remote.down = begin, begin + world.choices.choice((5.0, 60.0, 300.0))


@scenario("is called back", weight=3, deployment=CALLED_BACK)
async def is_called_back(world: SimWorld) -> None:
    """Await a remote agent whose callbacks come in time, early, late, doubled, forged, or not at all."""
    ann = Client(world)
    restarts(world)
    if world.choices.random() < 0.2:
        await ann.rest(await ann.stream("is called back", "m-1"))
    else:
        await ann.rest(id_of(await ann.send("is called back", "m-1", wait=world.choices.random() < 0.3)))


@scenario("cancels what is called back", weight=1, main=False, deployment=CALLED_BACK)
async def cancels_what_is_called_back(world: SimWorld) -> None:
    ann, ben = Client(world), Client(world, name="ann-2")
    task = await ann.send("is called back", "m-1", wait=False)
    if not id_of(task):
        return
    await pause(world, 0.3, 1.0, 1.2, 7.0, 22.0, 60.0, 900.0)
    await ben.cancel(task.id)
    await ann.rest(task.id)
    await ann.rest(id_of(await ann.send("steps", "m-2")))


async def _gone(world: SimWorld) -> None:
    """Await a remote agent that goes for good, before its first answer or in the middle: the task fails in time."""
    ann = Client(world)
    world.remote.down = world.choices.choice((0.0, 0.5, 1.5, 10.0, 30.0, 700.0)), math.inf
    await ann.rest(id_of(await ann.send("awaits", "m-1", wait=world.choices.random() < 0.3)))


scenario(
    "awaits a remote agent that is gone",
    weight=1,
    main=False,
    deployment=Deployment(delegates=True, watch_seconds=5.0, patience=PATIENCE),
)(_gone)
scenario(
    "is never called back",
    weight=1,
    main=False,
    deployment=Deployment(delegates=True, watch_seconds=5.0, patience=PATIENCE, calls_back=True),
)(_gone)
