"""Composition of PushFunction: delivery of push notifications."""

from collections.abc import Callable

from aion_core.bootstrap.stores import PushResources, build_stores
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.bootstrap.webhooks import webhook_policy
from aion_core.clock import Clock, SystemClock
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.errors import ConfigurationError
from aion_core.push.delivery import PushDelivery
from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.request import render
from aion_core.settings import Settings


def build_push(settings: Settings, telemetry: Telemetry) -> PushDelivery:
    """Return the delivery of push notifications. Raises ConfigurationError with the name of the setting."""
    clock = SystemClock()
    stores = build_stores(settings, clock)
    if stores.push is None or not stores.push.opens:
        missing = "AION_KMS_KEY" if settings.push_queue_url else "AION_PUSH_QUEUE_URL"
        raise ConfigurationError(f"Push notifications need the environment variable {missing}, but it is missing.")
    return push_delivery(settings, stores.tasks, stores.push, clock, telemetry)


def push_delivery(
    settings: Settings,
    tasks: StoredTasks,
    push: PushResources,
    clock: Clock,
    telemetry: Telemetry,
    *,
    stops: Callable[[], bool] = lambda: False,
) -> PushDelivery:
    """Return the service that delivers push notifications, built from these stores. See `PushDelivery` for `stops`."""
    webhooks = PinnedWebhookClient(webhook_policy(settings), clock)
    return PushDelivery(
        tasks,
        push.configs,
        push.queue,
        webhooks,
        render,
        clock,
        metrics=telemetry.metrics,
        traces=telemetry.traces,
        stops=stops,
    )
