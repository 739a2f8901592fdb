"""Context schema of a graph, which the agent's configuration in aion.yaml fills."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from aion_core.agents.langgraph.graph import Graph
from aion_core.authoring.context import AionContext
from aion_core.errors import AgentLoadError


class _Configuration(dict[str, Any]):
    """Configuration dict that is truthy even if it is empty, because LangGraph ignores a falsy context."""

    def __bool__(self) -> bool:
        return True


def own_context(graph: Graph, configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the configuration as the context of a graph with its own context schema; None if it has none.

    LangGraph creates an instance of the schema for each turn. Raises AgentLoadError, which names the missing or invalid
    field.
    """
    schema = graph.context_schema
    if schema in (None, AionContext):
        return None
    missing = [name for name in _required(schema) if name not in configuration]
    if missing:
        raise AgentLoadError(
            f"the graph's context schema {_schema_name(schema)} requires {', '.join(missing)}",
            do="Give it under `configuration` in aion.yaml.",
        )
    if dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel):
        try:
            schema(**configuration)
        except (TypeError, ValueError) as error:
            raise AgentLoadError(
                f"`configuration` in aion.yaml does not fit the graph's context schema {_schema_name(schema)}: {_reason(error)}",
                do="Fix the value under `configuration`, or the schema.",
            ) from error
    return _Configuration(configuration)


def _required(schema: Any) -> list[str]:
    """Return the names of a context schema's fields that have no default value."""
    if dataclasses.is_dataclass(schema):
        unset = dataclasses.MISSING
        fields = (field for field in dataclasses.fields(schema) if field.init)
        return [field.name for field in fields if field.default is unset and field.default_factory is unset]
    if issubclass(schema, BaseModel):
        return [field.alias or name for name, field in schema.model_fields.items() if field.is_required()]
    # Require no fields of a TypedDict, because a TypedDict does not enforce its fields.
    return []


def _schema_name(schema: Any) -> str:
    return str(getattr(schema, "__name__", schema))


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}."
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}."
