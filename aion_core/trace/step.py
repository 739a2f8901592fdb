"""Step of a turn. Pure."""

from enum import StrEnum

from msgspec import Struct

from aion_core.table.keys import TaskKey


class Kind(StrEnum):
    """Kind of a step."""

    AGENT = "agent"
    """The turn's agent, or a sub-agent."""
    NODE = "node"
    """A run of a graph's node."""
    MODEL = "model"
    """A call of a model."""
    TOOL = "tool"
    """A call of a tool."""
    RETRY = "retry"
    """The turn began again, because its last try failed without progress."""
    HANDOFF = "handoff"
    """The turn continues in this process, because the one before had reached its deadline."""
    WAIT = "wait"
    """The turn continues in this process, because what it waited for has come."""
    TAKEOVER = "takeover"
    """The turn continues in this process, because the one before died or froze."""


class Step(Struct, frozen=True, omit_defaults=True):
    """Something that an agent did in a turn, or that happened to the turn."""

    id: int
    """Number of the step in its try of the turn, from 1, in the order of the beginnings."""
    kind: Kind
    name: str
    """Name of the agent, node, model or tool; of a retry, handoff, wait or takeover its cause."""
    at: float
    """Beginning, in milliseconds since 1970."""
    parent: int = 0
    """Id of the step around this one; 0 for the turn's own."""
    ms: float | None = None
    """Duration in milliseconds; None while the step runs, and for one whose end nobody reported."""
    first_ms: float | None = None
    """Time from the beginning to a model's first chunk, in milliseconds; None without a stream."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    provider: str = ""
    """Provider of the model, as the framework calls it."""
    call_id: str = ""
    """Id that the model gave to its call of the tool."""
    arguments: str = ""
    """Arguments of a tool: JSON or text, short and without credentials."""
    result: str = ""
    """Result of a tool, or the text of an error, short and without credentials."""
    error: str = ""
    """Class of the exception that ended the step; `_OTHER` if a tool has reported an error as its result."""
    where: str = ""
    """File and line of the author's code where this exception was raised, as `agent.py:12`; "" if it was elsewhere."""


class TracedTurn(Struct, frozen=True):
    """Names of a turn whose steps are recorded, in one try."""

    task: TaskKey
    context_id: str
    agent: str
    turn_id: str
    fence: int
    """Fence of the lease of this try. It grows with each try of a context's turns."""
