"""Model calls that are not for the client: those of tools and middleware, and decisions as structured output."""

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Any

from langgraph.constants import TAG_NOSTREAM
from langgraph.pregel import Pregel

from aion_core.agents.langgraph.graph import STRUCTURED, Graph

_QUIET = "aion_quiet"
"""Key in the metadata of a model call that is not for the client. LangGraph passes the metadata on with each chunk."""

_HOOKS = (".before_agent", ".before_model", ".after_model", ".after_agent")
"""Ends of the names of the nodes in which LangChain's `create_agent` runs the hooks of a middleware."""

_MODEL_NODE = "model"
"""Node in which LangChain's `create_agent` calls the agent's model."""


def is_internal(metadata: Mapping[str, Any]) -> bool:
    """Return True for a model call whose text is not streamed: one that is marked, or made by LangChain itself."""
    return "lc_internal_call" in metadata or "lc_source" in metadata or _QUIET in metadata


def mark_quiet(metadata: MutableMapping[str, Any]) -> None:
    """Mark a model call as not for the client. `is_internal` recognises the mark in the metadata of each chunk."""
    metadata[_QUIET] = True


def is_for_client(
    graph: Graph, *, tags: Collection[str], metadata: Mapping[str, Any], parameters: Mapping[str, Any]
) -> bool:
    """Return True if the client may receive the text of a model call in this graph, while the model speaks.

    `parameters` has what LangChain reports at the start of the call: `options`, and the parameters for the provider.
    """
    if TAG_NOSTREAM in tags or is_internal(metadata) or metadata.get("langgraph_node", "").endswith(_HOOKS):
        return False
    if "ls_structured_output_format" in (parameters.get("options") or ()):
        return False
    place = metadata.get("langgraph_checkpoint_ns", "").split("|")
    if _is_within_tools(graph, place):
        return False
    return not _asks_for_json(parameters.get("invocation_params") or {}) or _is_final(graph, place)


_FORMATS = frozenset(
    {
        "response_format",  # OpenAI, and the many providers with its API
        "text",  # OpenAI's Responses API
        "format",  # Ollama
        "output_format",  # Anthropic
        "output_config",  # Anthropic
        "response_mime_type",  # Gemini
        "response_schema",  # Gemini
        "response_json_schema",  # Gemini
    }
)
"""Parameters by which a provider's API is asked for JSON, of every known provider."""


def _asks_for_json(request: Mapping[str, Any]) -> bool:
    return any(_is_json(name, request[name]) for name in _FORMATS.intersection(request))


def _is_json(name: str, given: Any) -> bool:
    """Return True if this parameter asks for JSON: by a schema as a dict or class, or by a name such as `json`."""
    match name:
        case "response_mime_type":
            return given not in (None, "", "text/plain")
        case "text" | "output_config":
            return isinstance(given, Mapping) and _is_json("format", given.get("format"))
    if isinstance(given, Mapping):
        return bool(given) and given.get("type") != "text"
    return isinstance(given, type) or (isinstance(given, str) and given.startswith("json"))


def _is_final(graph: Graph, place: Sequence[str]) -> bool:
    """Return True if an agent made by `create_agent` calls its own model, and this agent is a part of the served graph.

    With `ProviderStrategy` such an agent asks its provider for JSON, and answers with it. `place` is the checkpoint_ns of
    the calling node, in parts.
    """
    within: Graph | None = graph
    for part in place[:-1]:
        within = _subgraph_at(within, part) if within is not None else None
    return within is not None and _name(place[-1]) == _MODEL_NODE and STRUCTURED in within.channels


def _is_within_tools(graph: Graph, place: Sequence[str]) -> bool:
    """Return True if a ToolNode makes the call: a middleware may wrap the calls of its tools."""
    within: Graph | None = graph
    for part in place:
        if within is None:
            return False
        node = within.nodes.get(_name(part))
        if node is not None and isinstance(getattr(node.bound, "tools_by_name", None), dict):
            return True
        within = _subgraph_at(within, part)
    return False


def _subgraph_at(graph: Graph, part: str) -> Graph | None:
    """Return the subgraph that is the node at this part of a namespace; None for any other node."""
    node = graph.nodes.get(_name(part))
    return node.bound if node is not None and isinstance(node.bound, Pregel) else None


def _name(part: str) -> str:
    return part.partition(":")[0]
