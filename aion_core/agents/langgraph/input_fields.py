"""Input of a graph without messages: keys of its state that a client's message fills."""

import codecs
import inspect
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Union

from a2a.utils.errors import A2AError
from langgraph.graph.state import CompiledStateGraph
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, ROOT, Graph
from aion_core.agents.langgraph.parts import decoded_text
from aion_core.authoring.context import AionContext, get_aion_context
from aion_core.errors import AgentFailed
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.message_json import to_json
from aion_core.protocol.strict_json import strict_json
from aion_core.protocol.types import Part

MAX_FILE_VALUES = 100_000
"""Maximum number of values in a JSON file that fills the state. The turn stores the state several times."""

JSON, TEXT = "application/json", "text/plain"


class InputFields(Struct, frozen=True):
    """Keys of a graph's input schema that a client's message can fill, in a graph that reads no LangChain messages."""

    names: Sequence[str]
    """All keys, filled by an object in a data part."""
    text: str | None
    """Key filled by a text, or None without a key for texts."""
    is_first: bool = False
    """True if other keys could be filled by the text, too."""

    def values(self, parts: Sequence[Part]) -> tuple[dict[str, Any], list[str]]:
        """Return the state's values from message parts, and a description of each part that fits no key."""
        values: dict[str, Any] = {}
        unused: list[str] = []
        texts: list[str] = []
        for part in parts:
            kind, value = _read(part)
            if is_payload(part):
                continue
            if kind == "text":
                texts.append(value)
            elif isinstance(value, Mapping):
                values |= {key: item for key, item in value.items() if key in self.names}
                unused += [f"the key {key}" for key in value if key not in self.names]
            else:
                unused.append("data that is not an object" if kind == "data" else value)
        if text := "".join(texts):
            if self.text is None or self.text in values:
                unused.append("a text")
            else:
                values[self.text] = text
        return values, unused

    def accepted(self) -> str:
        """Return a description of the accepted messages, for the end of a sentence."""
        keys = f"a data part with an object of these keys: {', '.join(self.names)}" if self.names else "no content"
        return f"a text for {self.text}, or {keys}" if self.text is not None else keys


def _read(part: Part) -> tuple[str, Any]:
    """Return a part's kind ("text", "data" or "file") and its value; for a file, its description in an error.

    Text files count as text, valid JSON files as data.
    """
    kind, media_type = part.WhichOneof("content"), type_of(part) or ""
    if kind == "raw" and media_type == JSON:
        try:
            return "data", strict_json(part.raw.removeprefix(codecs.BOM_UTF8), "file", most_values=MAX_FILE_VALUES)
        except A2AError as error:
            return "file", f"a file ({error})"
    if kind == "raw" and media_type.startswith("text/"):
        return "text", decoded_text(part)
    return {"text": ("text", part.text), "data": ("data", to_json(part.data))}.get(str(kind), ("file", "a file"))


def input_fields(graph: Graph) -> InputFields | None:
    """Return the keys of the input schema that a message can fill; None if the graph reads messages or the inbox."""
    if not isinstance(graph, CompiledStateGraph) or INBOX in graph.channels:
        return None
    schema = graph.builder.input_schema
    named = graph.builder.schemas[schema]
    if MESSAGES in named or ROOT in named:
        return None
    names = [name for name in named if name in graph.builder.channels and name != OUTBOX]
    return InputFields(names, *_text_field(schema, names))


def state_values(graph: Graph, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the values that message parts give to the state; empty for a graph that reads messages."""
    found = input_fields(graph)
    return found.values(parts)[0] if found is not None else {}


def check_input(graph: Graph, parts: Sequence[Part], before: Mapping[str, Any]) -> None:
    """Raise AgentFailed if a part of the message cannot reach the graph, or does not fit its pydantic schema.

    `before` has the values of the state before the turn, which may supply required fields that the message lacks. A
    graph that reads the AionContext gets the whole message from there.
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


def input_modes(graph: Graph) -> tuple[str, ...]:
    """Return the media types that can fill the graph's state; empty for a graph that reads any message."""
    found = input_fields(graph)
    if found is None or _reads_context(graph):
        return ()
    return (TEXT, JSON) if found.text is not None else (JSON,)


def input_advice(graph: Graph, modes: Collection[str] | None) -> str:
    """Return a warning for the author about content that the graph cannot read; "" if there is none.

    `modes` has the media types in aion.yaml. If it is None, the agent's card lists the result of `input_modes`.
    """
    found, true = input_fields(graph), input_modes(graph)
    promised = {TEXT, ANY_FILE} & set(modes or ()) - set(true)
    if found is not None and true and found.is_first and TEXT in (modes or true):
        return (
            f"A text fills {found.text}, the first of several str fields of the graph's state. "
            "Name the input with an input_schema, StateGraph(State, input_schema=…), if it should fill another one."
        )
    if found is None or not true or (modes is not None and not promised) or (modes is None and TEXT in true):
        return ""
    do = (
        f"Set `input_modes: [{', '.join(true)}]` in aion.yaml, and the server refuses other content. "
        if promised
        else ""
    )
    more = "" if found.text is not None else "A text needs an input_schema with one str field."
    return f"The graph's state has no messages. It takes {found.accepted()}. {do}{more}".rstrip()


def _text_field(schema: Any, names: Collection[str]) -> tuple[str | None, bool]:
    """Return the `str` field to fill with a text: the only one, else the only required one, else the first.

    The second value is True if the field was chosen only because it is the first of several.
    """
    try:
        hints = typing.get_type_hints(schema, include_extras=True)
    except (NameError, TypeError):
        # Fill no field if Python cannot resolve a name in the schema's annotations.
        return None, False
    texts = {name: _is_text(hint) for name, hint in hints.items() if name in names}
    possible = [name for name, is_text in texts.items() if is_text]
    required = [name for name in possible if name in set(_required(schema))]
    only = possible if len(possible) == 1 else required if len(required) == 1 else []
    return next(iter([*only, *required, *possible]), None), not only and bool(possible)


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
    """Return True if the graph's context is the AionContext, or its nodes' modules import `get_aion_context`."""
    if getattr(graph, "context_schema", None) is AionContext:
        return True
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    modules = [getattr(inspect.unwrap(each), "__globals__", {}) for each in functions if callable(each)]
    return any(value is get_aion_context for module in modules for value in module.values())
