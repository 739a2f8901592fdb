"""Input of a graph whose input schema has no messages: parts of the client's message as values of the state."""

import inspect
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Union

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, ValidationError

from aion_core.agents.langgraph.thread import INBOX, MESSAGES, OUTBOX, Graph
from aion_core.authoring.context import AionContext, get_aion_context
from aion_core.errors import AgentFailed
from aion_core.protocol.aion.extensions import is_payload
from aion_core.protocol.message_rules import ANY_FILE
from aion_core.protocol.types import Part, to_json

JSON, TEXT = "application/json", "text/plain"


@dataclass(frozen=True, slots=True)
class InputFields:
    """Keys of a graph's input schema that a message without LangChain messages can fill."""

    names: Sequence[str]
    """All keys, filled by an object in a data part."""
    text: str | None
    """Key filled by a text, or None if no key or more than one could be meant."""

    def values(self, parts: Sequence[Part]) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the state in message parts, and a description of each part outside of the schema."""
        values: dict[str, Any] = {}
        unused: list[str] = []
        texts = [part.text for part in parts if part.WhichOneof("content") == "text" and not is_payload(part)]
        for part in parts:
            kind = part.WhichOneof("content")
            if is_payload(part) or kind == "text":
                continue
            data = to_json(part.data) if kind == "data" else None
            if isinstance(data, Mapping):
                values |= {key: value for key, value in data.items() if key in self.names}
                unused += [f"the key {key}" for key in data if key not in self.names]
            else:
                unused.append("data that is not an object" if kind == "data" else "a file")
        if text := "".join(texts):
            if self.text is None or self.text in values:
                unused.append("a text")
            else:
                values[self.text] = text
        return values, unused

    def accepted(self) -> str:
        """Return the accepted form of a message, as an end of a sentence."""
        keys = f"a data part with an object of these keys: {', '.join(self.names)}" if self.names else "no content"
        return f"a text for {self.text}, or {keys}" if self.text is not None else keys


def input_fields(graph: Graph) -> InputFields | None:
    """Return the fillable keys of the input schema, or None if the graph reads messages or the inbox."""
    if not isinstance(graph, CompiledStateGraph) or INBOX in graph.channels:
        return None
    schema = graph.builder.input_schema
    named = graph.builder.schemas[schema]
    if MESSAGES in named or "__root__" in named:
        return None
    names = [name for name in named if name in graph.builder.channels and name != OUTBOX]
    return InputFields(names, _text_field(schema, names))


def state_values(graph: Graph, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the values of the state in message parts; empty for a graph that reads messages."""
    found = input_fields(graph)
    return found.values(parts)[0] if found is not None else {}


def check_input(graph: Graph, parts: Sequence[Part], before: Mapping[str, Any]) -> None:
    """Raise AgentFailed if a part of the message cannot reach the graph, or does not fit its pydantic schema.

    `before` are the values of the state, which complete those of the message. A graph that reads the AionContext gets
    the whole message from it.
    """
    found = input_fields(graph)
    if found is None:
        return
    values, unused = found.values(parts)
    if unused and not _reads_context(graph):
        raise AgentFailed(f"The agent cannot read {unused[0]} in this message. It takes {found.accepted()}.")
    schema = graph.builder.input_schema if isinstance(graph, CompiledStateGraph) else None
    if values and isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema(**{**{key: value for key, value in before.items() if key in found.names}, **values})
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, problem["loc"]))
            raise AgentFailed(f"The message does not fit the agent's input: {place}: {problem['msg']}.") from error


def input_advice(graph: Graph, modes: Collection[str]) -> str:
    """Return a warning for the author if the agent's card promises media types that the graph cannot read, or ""."""
    found = input_fields(graph)
    if found is None or _reads_context(graph):
        return ""
    true = [*([TEXT] if found.text is not None else []), JSON]
    if not {TEXT, ANY_FILE} & set(modes) - set(true):
        return ""
    more = "" if found.text is not None else " A text needs an input_schema with one str field."
    return (
        f"The graph's state has no messages. It takes {found.accepted()}. "
        f"Set `input_modes: [{', '.join(true)}]` in aion.yaml, and the server refuses other content.{more}"
    )


def _text_field(schema: Any, names: Collection[str]) -> str | None:
    """Return the only field for a text, or if there are several, the only required one."""
    try:
        hints = typing.get_type_hints(schema, include_extras=True)
    except (NameError, TypeError):
        # An annotation has an unresolvable name.
        return None
    texts = {name: _is_text(hint) for name, hint in hints.items() if name in names}
    possible = [name for name, is_text in texts.items() if is_text]
    required = [name for name in possible if name in set(_required(schema))]
    return possible[0] if len(possible) == 1 else required[0] if len(required) == 1 else None


def _is_text(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (Annotated, typing.Required, typing.NotRequired):
        return _is_text(typing.get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return set(typing.get_args(hint)) == {str, type(None)}
    return hint is str


def _required(schema: Any) -> Iterator[str]:
    if is_dataclass(schema):
        yield from (each.name for each in fields(schema) if each.default is each.default_factory is MISSING)
    elif isinstance(schema, type) and issubclass(schema, BaseModel):
        yield from (name for name, each in schema.model_fields.items() if each.is_required())
    else:
        yield from getattr(schema, "__required_keys__", ())


def _reads_context(graph: Graph) -> bool:
    """Return True if the graph's nodes get the AionContext as their context, or their modules import its function."""
    if getattr(graph, "context_schema", None) is AionContext:
        return True
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    modules = [getattr(inspect.unwrap(each), "__globals__", {}) for each in functions if callable(each)]
    return any(value is get_aion_context for module in modules for value in module.values())
