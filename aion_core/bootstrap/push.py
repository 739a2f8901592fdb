"""PushFunction's parts: what delivers, and where to it may."""

from aion_core.bootstrap.operations import Operations
from aion_core.bootstrap.stores import Push, build_stores
from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_core.ports import Clock, TaskStore
from aion_core.push.client import PinnedWebhookClient
from aion_core.push.delivery import PushDelivery
from aion_core.push.payload import render
from aion_core.push.ssrf import WebhookPolicy
from aion_core.settings import NOWHERE, Settings


def build_push(settings: Settings, operations: Operations) -> PushDelivery:
    """Return what delivers push notifications; raises ConfigurationError that names the setting."""
    clock = SystemClock()
    stores = build_stores(settings, clock)
    if stores.push is None or not stores.push.opens:
        missing = "AION_KMS_KEY" if settings.push_queue_url else "AION_PUSH_QUEUE_URL"
        raise ConfigurationError(f"The environment variable {missing} is missing, which push notifications need.")
    return push_delivery(settings, stores.tasks, stores.push, clock, operations)


def push_delivery(
    settings: Settings, tasks: TaskStore, push: Push, clock: Clock, operations: Operations
) -> PushDelivery:
    """Return what delivers from these stores."""
    webhooks = PinnedWebhookClient(allowed(settings), clock)
    return PushDelivery(
        tasks,
        push.configs,
        push.queue,
        webhooks,
        render,
        clock,
        metrics=operations.metrics,
        traces=operations.traces,
    )


def allowed(settings: Settings) -> WebhookPolicy:
    """Return which addresses a webhook may have."""
    return WebhookPolicy.for_service(
        settings.base_url or NOWHERE,
        http=settings.push_http,
        ports=settings.push_ports,
        hosts=settings.push_hosts,
        networks=settings.push_networks,
    )
