"""Messages between the supervisor of the development server and its other processes, pickled by `multiprocessing`."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aion_tools.template.names import Place

ENDING = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)))
"""Signals that end the server. A terminal sends these signals to every process; only the supervisor handles them."""


@dataclass(frozen=True)
class EmulatorTask:
    """Options of the emulator process."""

    template: Path
    folder: Path
    """Folder of the emulator's snapshot."""
    fresh: bool
    """True to delete the earlier snapshot before the start."""


@dataclass(frozen=True)
class EmulatorReady:
    """Message from the emulator, sent once it accepts requests."""

    place: Place
    notes: tuple[str, ...]
    """Sentences for the developer about an unusable snapshot."""


@dataclass(frozen=True)
class EmulatorFailed:
    """Message from the emulator, sent if it cannot start."""

    reason: str


@dataclass(frozen=True)
class ReleaseMessages:
    """Command to the emulator: make the queue messages that an ended worker had received visible again."""

    receiver: str


@dataclass(frozen=True)
class Load:
    """Command to a worker to load the agents."""

    config: Path
    project: Path
    template: Path | None
    """Path of the SAM template. None without an emulated AWS."""
    place: Place | None
    base_url: str
    variables: Mapping[str, str]
    """Environment variables of the project for its agents. Variables of the template take precedence."""
    environment: Mapping[str, str]
    """Environment variables that take precedence over the template's variables."""
    colour: bool
    receiver: str
    """Name of the worker in its ReceiveMessage requests to the emulator."""
    log_file: Path | None
    """Path of the log file, or None to write no log file."""
    with_key: bool
    """True to create an API key for the developer, if an agent accepts API keys."""


@dataclass(frozen=True)
class AgentsLoaded:
    """Message from a worker, sent once it has tried to load all agents."""

    agents: tuple[str, ...]
    """Ids of all agents, in the order of the configuration."""
    failures: Mapping[str, str]
    """Reason for each agent that could not be loaded, by agent id."""
    per_turn: tuple[str, ...] = ()
    """Ids of agents created by a factory in each turn."""
    header: str = ""
    """HTTP header with the developer's API key."""
    undescribed: tuple[str, ...] = ()
    """Ids of agents whose cards have no description."""
    part: Mapping[str, Any] | None = None
    """Part of the message in the example request; None if no agent is loaded."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the template's functions or, without a template, for the SQLite store."""


@dataclass(frozen=True)
class LoadFailed:
    """Message from a worker, sent if it cannot serve any agent."""

    reason: str


@dataclass(frozen=True)
class Serve:
    """Command to a worker to accept HTTP requests and queue messages."""


@dataclass(frozen=True)
class Serving:
    """Message from a worker, sent once it accepts HTTP requests and queue messages."""


@dataclass(frozen=True)
class Stop:
    """Command to a worker to accept no more work, hand off its turns, end its streams, and exit."""

    has_successor: bool
    """True if another worker is ready to resume the turns. Then streams get more time, so that they can send the end of
    the resumed turns."""


@dataclass(frozen=True)
class Stopping:
    """Message from a worker, sent once it accepts no more requests. It proves that the worker's event loop is not blocked."""
