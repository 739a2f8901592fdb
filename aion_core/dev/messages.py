"""Messages between the supervisor and its processes, sent as pickles."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aion_core.template.names import Place

ENDING = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)))
"""Signals to end the server. A terminal sends them to every process; only the supervisor handles them."""


@dataclass(frozen=True)
class EmulatorTask:
    """Options of the emulator process."""

    template: Path
    folder: Path
    """Folder of the snapshot."""
    fresh: bool
    """True to delete the snapshot first."""


@dataclass(frozen=True)
class EmulatorReady:
    """Sent by the emulator once it serves."""

    place: Place
    notes: tuple[str, ...]
    """Messages for the developer."""


@dataclass(frozen=True)
class EmulatorFailed:
    """Sent by the emulator if it cannot serve."""

    reason: str


@dataclass(frozen=True)
class ReleaseMessages:
    """Command to the emulator: make the messages received by an ended worker visible again."""

    receiver: str


@dataclass(frozen=True)
class Load:
    """Command to a worker: load the agents."""

    config: Path
    project: Path
    template: Path | None
    """None with `--store memory`."""
    place: Place | None
    base_url: str
    variables: Mapping[str, str]
    """Variables of the project for its agents. Those of the template take precedence."""
    environment: Mapping[str, str]
    """Variables with precedence over those of the template."""
    colour: bool
    receiver: str
    """The worker's name in its ReceiveMessage requests."""
    with_key: bool
    """True to create an API key for the developer, if an agent accepts API keys."""


@dataclass(frozen=True)
class AgentsLoaded:
    """Sent by a worker once it has loaded its agents."""

    agents: tuple[str, ...]
    """Ids of all agents, in the order of the configuration."""
    failures: Mapping[str, str]
    """Reasons why agents could not be loaded, by agent id."""
    per_turn: tuple[str, ...] = ()
    """Ids of agents created by a factory in each turn."""
    header: str = ""
    """HTTP header with the developer's API key."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of the functions."""


@dataclass(frozen=True)
class LoadFailed:
    """Sent by a worker if it cannot serve any agent."""

    reason: str


@dataclass(frozen=True)
class Serve:
    """Command to a worker: accept requests and queue messages."""


@dataclass(frozen=True)
class Serving:
    """Sent by a worker once it accepts requests and queue messages."""


@dataclass(frozen=True)
class Stop:
    """Command to a worker: accept no more work, hand off its turns, end its streams, and exit."""

    has_successor: bool
    """True if another worker resumes its turns. Streams then get a little longer to end by themselves."""


@dataclass(frozen=True)
class Stopping:
    """Sent by a worker once it begins to stop. It proves that the event loop is not blocked."""
