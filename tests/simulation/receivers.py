"""Receivers of push notifications: how a client's webhook answers, well or badly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aion_core.ports import Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True)
class Answer:
    """An answer, and after how many seconds it comes."""

    outcome: PostOutcome
    seconds: float = 0.05


Receiver = Callable[["World", Mapping[str, str]], Answer]


def fine(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes everything, at once."""
    return Answer(Delivered())


def slow(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes everything, and its time."""
    return Answer(Delivered(), 15.0)


def flaky(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes what it is told the third time."""
    tries = sum(post.id == headers["id"] for post in world.history.posts)
    return Answer(Delivered() if tries >= 2 else PostRefused(500))


def forgetful(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes everything, and dies the first time before it has said so."""
    first = all(post.id != headers["id"] for post in world.history.posts)
    return Answer(Unreachable("the connection broke"), 3.0) if first else Answer(Delivered())


def busy(world: "World", headers: Mapping[str, str]) -> Answer:
    """Asks for more patience than the schedule has, once."""
    return Answer(Delivered() if world.history.posts else PostRefused(429, retry_after=70.0))


def down(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes nothing, ever."""
    return Answer(Unreachable("no connection"), 10.0)


def gone(world: "World", headers: Mapping[str, str]) -> Answer:
    """Takes two, and then says that it is gone."""
    return Answer(Delivered() if len(world.history.posts) < 2 else WebhookGone())


RECEIVERS: tuple[Receiver, ...] = (fine, fine, fine, slow, flaky, forgetful, busy, down, gone)
