"""Parts of an agent and the edges between them."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class PartKind(StrEnum):
    """Kind of a part of an agent."""

    NODE = "node"
    AGENT = "agent"
    TOOL = "tool"
    END = "end"
    """The start or the end of a graph."""


class DrawnPart(Struct, frozen=True):
    """Part of an agent: a node, a sub-agent or a tool."""

    id: str
    name: str
    """Name in the trace of a turn: the steps of this part have it."""
    kind: PartKind


class DrawnEdge(Struct, frozen=True):
    """Edge from one part to another."""

    source: str
    target: str
    label: str = ""
    """Route of a conditional edge; "" if it has no name of its own."""
    conditional: bool = False


class Drawing(Struct, frozen=True):
    """Parts of an agent and their edges, in the order of the author's code."""

    parts: Sequence[DrawnPart]
    edges: Sequence[DrawnEdge]
