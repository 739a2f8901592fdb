"""What the supervisor of the development server tells a worker, as a command line argument."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class WorkerTask:
    """Options of `aion dev`, and why this worker starts."""

    path: str
    """Place of the agents: a folder, a file, a module, an aion.yaml or a langgraph.json."""
    store: str
    auth: str
    data_folder: str
    base_url: str
    fresh: bool = False
    reloads: bool = True
    """True if the worker watches for edits."""
    verbose: bool = False
    """True if the log has a line for each step of a turn."""
    opens_browser: bool = False
    template: str = ""
    """Path of the SAM template of the emulated AWS. Empty for other stores, as is `place`."""
    place: tuple[str, ...] = ()
    """Fields of the emulated AWS's `Place`."""
    listener: int = -1
    """Descriptor of the listening socket."""
    channel: int = -1
    """Descriptor of the socket to the supervisor. The worker stops when the supervisor closes it or ends."""
    is_first: bool = True
    """True until a worker has served: such a worker prints the greeting, and exits if it cannot serve."""
    edited: str = ""
    """Names of the edited files that caused the worker's start, or ""."""
    since: float = 0.0
    """Time of the monotonic clock at which the edit was noticed, or the earlier worker had ended."""
    error: str = ""
    """Reason why an earlier worker could not load the agents. The worker answers with it, and does not try again."""

    def text(self) -> str:
        """Return the task as a command line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "WorkerTask":
        """Return the task in a command line argument."""
        return cls(**json.loads(text))
