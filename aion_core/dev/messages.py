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
    """Template and state folder for the emulator process."""

    template: Path
    folder: Path
    """Folder of the snapshot."""
    fresh: bool
    """True to delete it first."""


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
    """Ask the emulator to show messages again that a worker received which has ended."""

    receiver: str


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
    """Variables that the project sets for its agents; those of the template win."""
    environment: Mapping[str, str]
    """Variables that win over those of the template."""
    colour: bool
    receiver: str
    """The worker's name in what it receives from queues."""
    with_key: bool
    """True to create an API key for the developer, if callers need one."""


@dataclass(frozen=True)
class Loaded:
    """Agents that a worker has loaded and can serve."""

    agents: tuple[str, ...]
    """By their ids, in the order of the configuration."""
    failures: Mapping[str, str]
    """The agents that cannot be loaded, and why."""
    per_turn: tuple[str, ...] = ()
    """The agents whose factory is called for each turn, and has not been called yet."""
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
    """True if another worker resumes its turns: streams then get a little longer to end by themselves."""


@dataclass(frozen=True)
class Ending:
    """The worker has begun to stop: its event loop is not blocked."""
