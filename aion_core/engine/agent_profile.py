"""What an agent's code says about the agent, once it is loaded: for the agent's card, and for its callers."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from aion_core.protocol.types import AgentCard, Message


class AgentProfile(Struct, frozen=True, eq=False, kw_only=True):
    """What an agent's code says about the agent. Every part may be missing."""

    card: AgentCard = field(default_factory=AgentCard)
    """Fields of the agent's card that the code states. aion.yaml has precedence."""
    examples: Sequence[str] = ()
    """Messages to try, for a skill without examples of its author."""
    reads: tuple[str, ...] = ()
    """Media types of the parts that the code can read; empty if it reads every type.

    The card may list fewer: those of which a part alone can start a turn.
    """
    uses_aion_extensions: bool = False
    """True if the code uses what the Aion extensions carry, such as the event and the thread of a network."""
    refusal: Callable[[Message, bool], str] | None = None
    """Function from a message to the reason why it cannot start a turn, or "" if it can.

    The second argument is True if the message continues a context, whose state may have the values that the message
    lacks. None if every message can start a turn.
    """


UNKNOWN = AgentProfile()
"""Profile of an agent that is not loaded, or whose code says nothing."""
