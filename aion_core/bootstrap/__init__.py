"""Composition root: builds the services of each function from the settings.

Imports happen inside the functions, so that a process loads only the code of the service that it builds.
"""

import os
from typing import TYPE_CHECKING

from aion_core import log
from aion_core.bootstrap.operations import Operations
from aion_core.bootstrap.operations import build_operations as _build_operations
from aion_core.ports.queues import push_wake_up_of as push_wake_up_of
from aion_core.ports.queues import wake_up_of as wake_up_of
from aion_core.settings import Settings
from aion_core.tasks.sweep import Sweep

if TYPE_CHECKING:
    from fastapi import FastAPI

    from aion_core.push.delivery import PushDelivery
    from aion_core.tasks.runner import Worker

# The SDK reads this at its first import. Its spans slow every request, so they are off by default.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
# By default ADK puts prompts and answers into its spans: keep them out.
os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")


def build_operations(settings: Settings | None = None) -> Operations:
    """Return logging, metrics and traces. Call it first: it configures the log.

    Raises ConfigurationError with the name of the setting.
    """
    log.install()
    return _build_operations(settings or Settings.from_environ())


def build_app(settings: Settings | None = None) -> "FastAPI":
    """Return the ASGI app with its dependencies. Call it once per process.

    Raises ConfigurationError with the name of the setting or the line of aion.yaml.
    """
    settings = settings or Settings.from_environ()
    operations = build_operations(settings)
    from aion_core.bootstrap.app import build_app as build

    return build(settings, operations)


def build_worker(settings: Settings | None = None, operations: Operations | None = None) -> "Worker":
    """Return the worker that runs a turn for each wake-up message. Call it once per process; raises as `build_app` does."""
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.engine import build_engine

    return build_engine(settings, operations).worker


def build_sweep(settings: Settings | None = None, operations: Operations | None = None) -> Sweep:
    """Return the sweep for expired timers, without loading agents or frameworks. Call it once per process."""
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.stores import build_stores
    from aion_core.clock import SystemClock

    stores = build_stores(settings, SystemClock())
    push = (stores.push.configs, stores.push.queue) if stores.push else ()
    return Sweep(stores.tasks, stores.work_queue, *push, metrics=operations.metrics)


def build_push(settings: Settings | None = None, operations: Operations | None = None) -> "PushDelivery":
    """Return the delivery of push notifications, without loading agents or frameworks. Call it once per process.

    Raises ConfigurationError with the name of the setting.
    """
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.push import build_push as build

    return build(settings, operations)
