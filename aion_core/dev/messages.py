"""Messages between the supervisor and its processes: plain values that cross by pickle."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aion_core.template.names import Place

ENDING = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)))
"""Signals that end a server. A terminal sends them to each process: the supervisor hears them, the others ignore them."""


@dataclass(frozen=True)
class EmulatorTask:
    """What the process is to serve."""

    template: Path
    folder: Path
    """Where the snapshot is."""
    fresh: bool
    """Whether to forget it."""


@dataclass(frozen=True)
class EmulatorReady:
    """The emulator serves."""

    place: Place
    notes: tuple[str, ...]
    """Sentences for the developer."""


@dataclass(frozen=True)
class EmulatorFailed:
    """The emulator cannot serve."""

    reason: str


@dataclass(frozen=True)
class ReleaseMessages:
    """Ask the emulator to show messages again that a process received which has died."""


@dataclass(frozen=True)
class Load:
    """Ask a worker to load the agents."""

    config: Path
    project: Path
    template: Path | None
    """None with `--store memory`."""
    place: Place | None
    base_url: str
    variables: Mapping[str, str]
    """What the project sets for its agents; the template's variables go before them."""
    environment: Mapping[str, str]
    """What goes before the template's."""
    colour: bool
    with_key: bool
    """Whether to make a key for the developer, where keys are what callers need."""


@dataclass(frozen=True)
class Loaded:
    """What a worker has loaded, and can serve."""

    agents: tuple[str, ...]
    """By their ids, in the order of the configuration."""
    failures: Mapping[str, str]
    """The agents that cannot be loaded, and why."""
    header: str = ""
    """A header with the developer's key."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of the functions."""


@dataclass(frozen=True)
class LoadFailed:
    """The worker can serve nothing, whatever its agents are."""

    reason: str


@dataclass(frozen=True)
class Serve:
    """Ask a worker to accept requests, and messages of the queues."""


@dataclass(frozen=True)
class Serving:
    """The worker does."""


@dataclass(frozen=True)
class Stop:
    """Ask a worker to accept no more, to hand its turns on, to end its streams, and to exit."""

    has_successor: bool
    """Whether another worker goes on with its turns: streams may then end by themselves for a little longer."""
