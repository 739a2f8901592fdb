"""Limit for agents that call each other in a loop: each request says how many agents have called before. Pure.

The number can only cut a loop. It grants nothing, and a request without it, or with a wrong one, counts as a first call.
"""

from collections.abc import Mapping
from typing import Any

from aion_core.errors import AgentFailed

DEPTH = "https://docs.aion.to/a2a/extensions/aion/delegation/1.0.0"
"""URI of the extension, and key of the request's metadata with the number of calls that led to the request."""

MAX_DEPTH = 8
"""Most calls in a row, each by the agent that the one before has called."""


def depth_of(metadata: Mapping[str, Any]) -> int:
    """Return how many calls have led to the request with this metadata; 0 for a request of a client."""
    depth = metadata.get(DEPTH)
    if isinstance(depth, bool) or not isinstance(depth, int | float):
        return 0
    return max(0, int(min(depth, MAX_DEPTH)))


def next_depth(metadata: Mapping[str, Any], remote: str) -> dict[str, int]:
    """Return the metadata for a request to `remote` by the turn whose request has `metadata`.

    Raises AgentFailed if the agents seem to call each other in a loop.
    """
    depth = depth_of(metadata) + 1
    if depth > MAX_DEPTH:
        raise AgentFailed(
            f"The agent {remote!r} was not called: {MAX_DEPTH} agents have called each other before, probably in a loop."
        )
    return {DEPTH: depth}
