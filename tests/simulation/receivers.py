"""Receivers of push notifications: good and bad responses of a client's webhook."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aion_core.push.client import Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld


@dataclass(frozen=True)
class ReceiverAnswer:
    """Response of the webhook, and its delay in seconds."""

    outcome: PostOutcome
    seconds: float = 0.05


Receiver = Callable[["SimWorld", Mapping[str, str]], ReceiverAnswer]


def fine(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Accept everything at once."""
    return ReceiverAnswer(Delivered())


def slow(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Accept everything slowly."""
    return ReceiverAnswer(Delivered(), 15.0)


def flaky(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Refuse each notification's first two attempts."""
    tries = sum(post.id == headers["id"] for post in world.history.posts)
    return ReceiverAnswer(Delivered() if tries >= 2 else PostRefused(500))


def forgetful(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Accept everything, but lose the response to each first attempt."""
    first = all(post.id != headers["id"] for post in world.history.posts)
    return ReceiverAnswer(Unreachable("the connection broke"), 3.0) if first else ReceiverAnswer(Delivered())


def busy(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Refuse the first notification with a Retry-After of 70 s."""
    return ReceiverAnswer(Delivered() if world.history.posts else PostRefused(429, retry_after=70.0))


def down(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Accept nothing."""
    return ReceiverAnswer(Unreachable("no connection"), 10.0)


def gone(world: "SimWorld", headers: Mapping[str, str]) -> ReceiverAnswer:
    """Accept two notifications, then answer with status 410: the endpoint no longer exists."""
    return ReceiverAnswer(Delivered() if len(world.history.posts) < 2 else WebhookGone())


RECEIVERS: tuple[Receiver, ...] = (fine, fine, fine, slow, flaky, forgetful, busy, down, gone)
