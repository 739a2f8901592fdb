"""Composition root: builds the services of each Lambda function from the settings.

Imports happen inside the functions, so that a process loads only the code of the service that it builds.
"""

import os
from typing import TYPE_CHECKING

from aion_core import log
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.bootstrap.telemetry import build_telemetry as _build_telemetry
from aion_core.bootstrap.telemetry import unusable_table_logged as unusable_table_logged
from aion_core.engine.queues import push_wake_up_of as push_wake_up_of
from aion_core.engine.queues import wake_up_of as wake_up_of
from aion_core.engine.sweep import Sweep
from aion_core.garbage import no_garbage_collection
from aion_core.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from aion_core.bootstrap.app import MakeAdditions
    from aion_core.engine.runner.worker import Worker
    from aion_core.push.delivery import PushDelivery

# Disable the A2A SDK's trace spans, because they slow every request. The SDK reads this variable at its first import.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
# Keep prompts and answers out of ADK's trace spans.
os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")


def build_telemetry(settings: Settings | None = None) -> Telemetry:
    """Return logging, metrics and traces. Call it before the other functions, because it configures the log.

    Raises ConfigurationError with the name of the setting.
    """
    log.install()
    return _build_telemetry(settings or Settings.from_environ())


@no_garbage_collection()
def build_app(settings: Settings | None = None, additions: "MakeAdditions | None" = None) -> "FastAPI":
    """Return the ASGI app with its dependencies. Call it once per process.

    A server may add routes and middleware beyond A2A: `additions` makes them from the services of this process. Raises
    ConfigurationError with the name of the setting or the line of aion.yaml.
    """
    settings = settings or Settings.from_environ()
    telemetry = build_telemetry(settings)
    from aion_core.bootstrap.app import build_app as build

    return build(settings, telemetry, additions)


@no_garbage_collection()
def build_worker(settings: Settings | None = None, telemetry: Telemetry | None = None) -> "Worker":
    """Return the handler of wake-up messages for turns. Call it once per process. Raises the errors of `build_app`.

    On Lambda it loads the agents in the init phase. If an agent's import fails, each of its turns fails with an error.
    """
    settings = settings or Settings.from_environ()
    telemetry = telemetry or build_telemetry(settings)
    from aion_core.bootstrap.turns import build_turn_services

    turns = build_turn_services(settings, telemetry)
    if settings.on_lambda:
        from aion_core.loading.init_phase import load_in_init

        load_in_init(turns.agents, fails=False)
    return turns.worker


@no_garbage_collection()
def build_sweep(settings: Settings | None = None, telemetry: Telemetry | None = None) -> Sweep:
    """Return the sweep for expired timers, without loading agents or frameworks. Call it once per process."""
    settings = settings or Settings.from_environ()
    telemetry = telemetry or build_telemetry(settings)
    from aion_core.bootstrap.stores import build_stores
    from aion_core.clock import SystemClock

    stores = build_stores(settings, SystemClock())
    push = (stores.push.configs, stores.push.queue) if stores.push else ()
    return Sweep(
        stores.tasks, stores.work_queue, *push, remote_calls=stores.tasks.remote_calls, metrics=telemetry.metrics
    )


@no_garbage_collection()
def build_push(settings: Settings | None = None, telemetry: Telemetry | None = None) -> "PushDelivery":
    """Return the delivery of push notifications, without loading agents or frameworks. Call it once per process.

    Raises ConfigurationError with the name of the setting.
    """
    settings = settings or Settings.from_environ()
    telemetry = telemetry or build_telemetry(settings)
    from aion_core.bootstrap.push import build_push as build

    return build(settings, telemetry)
