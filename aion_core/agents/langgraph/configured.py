"""What a graph needs of its deployment: a context of its own schema, and a checkpointer that a server can wait for."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import BaseModel, ValidationError

from aion_core.agents.langgraph.graph import Graph
from aion_core.authoring.context import AionContext
from aion_core.errors import AgentLoadError

_AWAITED = ("aget_tuple", "aput", "aput_writes")
"""What a turn calls of a checkpointer."""


class _Configuration(dict[str, Any]):
    """Is there even where it is empty: LangGraph takes what is false for no context at all."""

    def __bool__(self) -> bool:
        return True


def own_context(graph: Graph, configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the context of a graph that has a schema of its own: its configuration; None where the schema is ours.

    LangGraph makes an object of the schema of it for each turn. Raises AgentLoadError that names what is missing, or
    does not fit.
    """
    schema = graph.context_schema
    if schema in (None, AionContext):
        return None
    missing = [name for name in _required(schema) if name not in configuration]
    if missing:
        raise AgentLoadError(
            f"the graph's context schema {_name(schema)} requires {', '.join(missing)}",
            do="Give it under `configuration` in aion.yaml.",
        )
    if dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel):
        try:
            schema(**configuration)
        except (TypeError, ValueError) as error:
            raise AgentLoadError(
                f"`configuration` in aion.yaml does not fit the graph's context schema {_name(schema)}: {_why(error)}",
                do="Mend the value under `configuration`, or the schema.",
            ) from error
    return _Configuration(configuration)


def check_saver(graph: Graph) -> None:
    """Raise AgentLoadError where the graph brings a checkpointer that cannot be awaited."""
    saver = graph.checkpointer
    if isinstance(saver, BaseCheckpointSaver) and any(_is_missing(getattr(type(saver), name)) for name in _AWAITED):
        raise AgentLoadError(
            f"the graph's own checkpointer, {type(saver).__name__}, has no async methods",
            do=f"Compile the graph without it, or with its async twin, such as Async{type(saver).__name__}.",
        )


def _required(schema: Any) -> list[str]:
    """Return the names of the fields that have no default."""
    if dataclasses.is_dataclass(schema):
        unset = dataclasses.MISSING
        fields = (field for field in dataclasses.fields(schema) if field.init)
        return [field.name for field in fields if field.default is unset and field.default_factory is unset]
    if issubclass(schema, BaseModel):
        return [field.alias or name for name, field in schema.model_fields.items() if field.is_required()]
    # A TypedDict has no defaults, and enforces nothing: its graph asks with `.get`.
    return []


def _is_missing(method: Any) -> bool:
    # That of the base class, or one that is there to say where the async twin is, as LangGraph's own have it.
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names


def _name(schema: Any) -> str:
    return str(getattr(schema, "__name__", schema))


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}."
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}."
