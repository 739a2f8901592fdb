"""Composition of the trace of turns."""

from aion_core.bootstrap.stores import Stores
from aion_core.clock import Clock
from aion_core.settings import Settings
from aion_core.trace.store import TraceStore
from aion_core.trace.tracer import Tracer


def build_tracer(settings: Settings, stores: Stores, clock: Clock) -> Tracer | None:
    """Return the tracer of this process; None if nobody stores the steps of its turns."""
    return Tracer(clock, TraceStore(stores.resources.table, clock)) if settings.trace else None
