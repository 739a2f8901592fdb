"""What a client's message has to have to start a graph, from the annotations of the graph's input.

| input | accepted |
| --- | --- |
| messages, `a2a_inbox`, `dict`, no annotation | every message |
| fields: a TypedDict, a dataclass, a pydantic model | `InputFields` |
| another type of an `@entrypoint` | `InputValue` |
"""

import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.channels import LastValue
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import is_typeddict

from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, ROOT, Graph, entrypoint_function
from aion_core.agents.langgraph.input_fields import TEXT, InputFields
from aion_core.agents.langgraph.input_types import (
    UNIONS,
    InputCheck,
    annotations_of,
    check_of_fields,
    check_of_type,
    is_enforced,
    is_object,
    is_optional,
    required_fields,
    without_none,
    without_required,
)
from aion_core.agents.langgraph.input_value import InputValue, kinds_of
from aion_core.authoring.context import AionContext, get_aion_context
from aion_core.authoring.types import A2AInbox
from aion_core.errors import AgentFailed
from aion_core.protocol.media_types import ANY_FILE
from aion_core.protocol.types import Part

InputContract = InputFields | InputValue


def input_contract(graph: Graph) -> InputContract | None:
    """Return what a message has to have to start the graph; None if every message can."""
    if isinstance(graph, CompiledStateGraph):
        return _of_state(graph)
    function = entrypoint_function(graph)
    return _of_function(function) if function is not None else None


def input_annotation(graph: Graph) -> Any:
    """Return the annotation of an `@entrypoint`'s input, without None; Any if it has none, or for another graph.

    A parameter `messages` without an annotation is a list of them, as in LangGraph's own examples.
    """
    function = entrypoint_function(graph)
    return _annotation(function) if function is not None else Any


def _annotation(function: Callable[..., Any]) -> Any:
    first = next(iter(inspect.signature(function).parameters), "")
    return without_none(annotations_of(function).get(first, list if first == MESSAGES else Any))


def reads_any_message(annotation: Any) -> bool:
    """Return True for the input of an `@entrypoint` that is a dict, the inbox, a LangChain message, or a list of them."""
    if annotation in (Any, object, A2AInbox) or is_messages(annotation) or is_message(annotation):
        return True
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and not is_object(origin) and issubclass(origin, Mapping)


def is_messages(annotation: Any) -> bool:
    """Return True for a list of LangChain messages, or a list without a type of its items."""
    origin, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    is_list = isinstance(origin, type) and issubclass(origin, Sequence) and not issubclass(origin, str | bytes | tuple)
    return is_list and (not arguments or arguments[0] is Any or is_message(arguments[0]))


def is_dicts(annotation: Any) -> bool:
    """Return True for a list of dicts or TypedDicts: the messages of a provider's own client, such as OpenAI's."""
    annotation = without_none(annotation)
    if not (arguments := typing.get_args(annotation)) or typing.get_origin(annotation) is not list:
        return False
    item = without_none(arguments[0])
    inside = typing.get_args(item) if typing.get_origin(item) in UNIONS else (item,)
    kinds = [typing.get_origin(each) or each for each in map(without_none, inside)]
    return all(is_typeddict(each) or (isinstance(each, type) and issubclass(each, Mapping)) for each in kinds)


def is_message(annotation: Any) -> bool:
    """Return True for a class of LangChain's messages, or a union of them."""
    annotation = without_none(annotation)
    inside = typing.get_args(annotation) if typing.get_origin(annotation) in UNIONS else (annotation,)
    return all(isinstance(each, type) and issubclass(each, BaseMessage) for each in map(without_none, inside))


def _of_state(graph: CompiledStateGraph[Any, Any, Any, Any]) -> InputFields | None:
    builder = graph.builder
    schema: Any = builder.input_schema
    is_declared = schema is not builder.state_schema
    named = builder.schemas[schema]
    if ROOT in named or INBOX in graph.channels:
        return None
    names = tuple(name for name in named if name in builder.channels and name not in (MESSAGES, OUTBOX))
    if MESSAGES in named and not is_declared:
        # The other fields of the state are the graph's own, but those without which it cannot be made are the client's.
        needed = set(required_fields(schema)) if is_enforced(schema) else set()
        names = tuple(name for name in names if name in needed)
    if not names and MESSAGES in named:
        return None
    # A channel with a reducer has a value before the first write.
    unset = frozenset(name for name in names if isinstance(graph.channels.get(name), LastValue))
    return _fields(schema, names, unset, is_declared=is_declared, has_messages=MESSAGES in named)


@lru_cache(maxsize=64)
def _of_function(function: Callable[..., Any]) -> InputContract | None:
    annotation = _annotation(function)
    if reads_any_message(annotation):
        return None
    if is_object(annotation):
        hints = annotations_of(annotation)
        names = tuple(name for name in hints if name not in (MESSAGES, INBOX))
        has_messages = len(names) < len(hints)
        if not hints or (has_messages and not names):
            return None
        return _fields(annotation, names, frozenset(names), is_declared=True, has_messages=has_messages)
    check = check_of_type(annotation)
    if check is None:
        return None
    schema = InputValue(check, frozenset()).schema()
    kinds = kinds_of(schema) if schema is not None else frozenset({"data"})
    return InputValue(check, kinds or frozenset({"data"}))


@lru_cache(maxsize=64)
def _fields(
    schema: Any, names: tuple[str, ...], unset: frozenset[str], *, is_declared: bool, has_messages: bool
) -> InputFields:
    """Return the fields of a schema. `unset` has the fields without a value before the graph's first turn.

    The result is cached, because a factory makes a new graph with the same schema for each turn.
    """
    hints = {name: without_required(hint) for name, hint in annotations_of(schema).items() if name in names}
    required = frozenset(required_fields(schema)) & frozenset(names)
    if is_enforced(schema):
        needed = required & unset
    elif is_declared and not has_messages:
        # A TypedDict is only a promise. Hold clients to it where the author has declared it for the input alone, and
        # the key may not be None.
        needed = frozenset(name for name in required & unset if name in hints and not is_optional(hints[name]))
    else:
        needed = frozenset()
    text, is_first = _text_field(hints, required) if not has_messages else (None, False)
    return InputFields(names, text, is_first, needed, _check(schema, names, hints, needed), has_messages)


def _check(
    schema: Any, names: Collection[str], hints: Mapping[str, Any], required: Collection[str]
) -> InputCheck | None:
    whole = check_of_type(schema) if is_enforced(schema) and set(annotations_of(schema)) <= set(names) else None
    return whole or (check_of_fields(hints, required) if hints else None)


def _text_field(hints: Mapping[str, Any], required: Collection[str]) -> tuple[str | None, bool]:
    """Return the `str` field to fill with a text: the only one, else the only required one, else the first.

    The second value is True if the field was chosen only because it is the first of several.
    """
    possible = [name for name, hint in hints.items() if without_none(hint) is str]
    needed = [name for name in possible if name in required]
    only = possible if len(possible) == 1 else needed if len(needed) == 1 else []
    return next(iter([*only, *needed, *possible]), None), not only and bool(possible)


def state_values(graph: Graph, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the values that message parts give to the state; empty for a graph that reads only messages."""
    contract = input_contract(graph) if isinstance(graph, CompiledStateGraph) else None
    return contract.given(parts)[0] if isinstance(contract, InputFields) else {}


def refusal(graph: Graph, parts: Sequence[Part], before: Mapping[str, Any] | None) -> str:
    """Return why message parts cannot start the graph, with the accepted form; "" if they can.

    `before` has the values of the state before the turn, which may supply required fields; None if they are not known.
    A graph that reads the AionContext gets the whole message from there.
    """
    contract = input_contract(graph)
    if contract is None:
        return ""
    given, unused = contract.given(parts)
    if unused and not reads_context(graph):
        return f"The agent cannot read {unused[0]} in this message. It takes {contract.accepted()}."
    if not given and reads_context(graph):
        return ""
    if problem := contract.problem(given, before):
        return f"The message does not fit the agent's input: {problem.rstrip('.')}. It takes {contract.accepted()}."
    return ""


def check_input(graph: Graph, parts: Sequence[Part], before: Mapping[str, Any]) -> None:
    """Raise AgentFailed if message parts cannot start the graph. See `refusal`.

    The server has checked the message before the turn, but without the values of the state, and not for an agent that
    was not loaded then.
    """
    if reason := refusal(graph, parts, before):
        raise AgentFailed(reason)


def input_modes(graph: Graph) -> tuple[str, ...]:
    """Return the media types of which a part alone can start the graph; empty for a graph that reads any message."""
    contract = input_contract(graph)
    return () if contract is None or reads_context(graph) else contract.modes


def readable_modes(graph: Graph) -> tuple[str, ...]:
    """Return the media types of the parts that reach the graph; empty for a graph that reads any message."""
    contract = input_contract(graph)
    return () if contract is None or reads_context(graph) else contract.reads


def input_advice(graph: Graph, modes: Collection[str] | None) -> str:
    """Return a warning for the author about content that the graph cannot read; "" if there is none.

    `modes` has the media types in aion.yaml. If it is None, the agent's card lists the result of `input_modes`.
    """
    found, true = input_contract(graph), input_modes(graph)
    if found is None or not true:
        return ""
    if isinstance(found, InputFields) and found.is_first and TEXT in (modes or true) and TEXT in true:
        return (
            f"A text fills {found.text}, the first of several str fields of the graph's state. "
            "Name the input with an input_schema, StateGraph(State, input_schema=…), if it should fill another one."
        )
    promised = {TEXT, ANY_FILE} & set(modes or ()) - set(true)
    if (modes is not None and not promised) or (modes is None and TEXT in true):
        return ""
    do = (
        f"Set `input_modes: [{', '.join(true)}]` in aion.yaml, and the server refuses other content. "
        if promised
        else ""
    )
    if isinstance(found, InputValue):
        return f"The input of the @entrypoint takes {found.accepted()}. {do}".rstrip()
    more = "" if TEXT in true else "A text needs an input_schema with one str field."
    return f"The graph's state has no messages. It takes {found.accepted()}. {do}{more}".rstrip()


def reads_context(graph: Graph) -> bool:
    """Return True if the graph's context is the AionContext, or its nodes' modules import `get_aion_context`."""
    if getattr(graph, "context_schema", None) is AionContext:
        return True
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    modules = [getattr(inspect.unwrap(each), "__globals__", {}) for each in functions if callable(each)]
    return any(value is get_aion_context for module in modules for value in module.values())
