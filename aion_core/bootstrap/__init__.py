"""The one place where parts meet: settings → adapters → services. What a function does not build it does not import."""

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

# Off unless tracing is on: the SDK's spans cost every request. It is read at the first a2a import.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
# ADK puts each prompt and answer into its spans, unless it is told not to (R13).
os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")


def build_operations(settings: Settings | None = None) -> Operations:
    """Return what the operator sees of this function; it comes first, so that what follows is logged by its rules.

    Raises ConfigurationError that names the setting.
    """
    log.install()
    return _build_operations(settings or Settings.from_environ())


def build_app(settings: Settings | None = None) -> "FastAPI":
    """Return the ASGI app with all it needs, made once per execution environment.

    Raises ConfigurationError that names the setting or the line of aion.yaml.
    """
    settings = settings or Settings.from_environ()
    operations = build_operations(settings)
    from aion_core.bootstrap.app import build_app as build

    return build(settings, operations)


def build_worker(settings: Settings | None = None, operations: Operations | None = None) -> "Worker":
    """Return what answers bells with turns, made once per execution environment; raises as `build_app` does."""
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.engine import build_engine

    return build_engine(settings, operations).worker


def build_sweep(settings: Settings | None = None, operations: Operations | None = None) -> Sweep:
    """Return what finds overdue work, made once per execution environment; it loads no agent and no framework."""
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.stores import build_stores
    from aion_core.clock import SystemClock

    stores = build_stores(settings, SystemClock())
    push = (stores.push.configs, stores.push.queue) if stores.push else ()
    return Sweep(stores.tasks, stores.work_queue, *push, metrics=operations.metrics)


def build_push(settings: Settings | None = None, operations: Operations | None = None) -> "PushDelivery":
    """Return what delivers push notifications, made once per execution environment; it loads no agent and no framework.

    Raises ConfigurationError that names the setting.
    """
    settings = settings or Settings.from_environ()
    operations = operations or build_operations(settings)
    from aion_core.bootstrap.push import build_push as build

    return build(settings, operations)
