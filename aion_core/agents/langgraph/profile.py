"""What a graph says about its agent: name, description, accepted messages, kind of answer."""

import json
import typing
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from langgraph.func import entrypoint
from langgraph.graph.state import CompiledStateGraph

from aion_core.agents.langgraph.graph import (
    MESSAGES,
    OUTBOX,
    STRUCTURED,
    Graph,
    entrypoint_function,
    has_single_value,
)
from aion_core.agents.langgraph.input_contract import (
    input_contract,
    input_modes,
    is_message,
    is_messages,
    readable_modes,
    reads_any_message,
    reads_context,
    refusal,
)
from aion_core.agents.langgraph.input_fields import JSON, TEXT, InputFields
from aion_core.agents.langgraph.input_types import annotations_of, check_of_type, is_object, without_none
from aion_core.agents.langgraph.input_value import InputValue, kinds_of
from aion_core.engine.agent_profile import AgentProfile
from aion_core.loading.card_sources.texts import first_paragraph
from aion_core.protocol.aion.extensions import INPUT
from aion_core.protocol.types import AgentCapabilities, AgentCard, AgentExtension, Message

DEFAULT_NAME = "LangGraph"
"""Name of a graph that is compiled without one."""


def graph_profile(graph: Graph) -> AgentProfile:
    """Return what the graph says about its agent."""
    function = entrypoint_function(graph)
    schema, examples = _input_of(graph)
    return AgentProfile(
        card=AgentCard(
            name=graph.name if graph.name != DEFAULT_NAME else "",
            description=first_paragraph(function.__doc__) if function is not None else "",
            default_input_modes=input_modes(graph),
            default_output_modes=output_modes(graph),
            capabilities=AgentCapabilities(extensions=[schema] if schema is not None else []),
        ),
        examples=examples,
        reads=readable_modes(graph),
        refusal=_refusal(graph) if input_contract(graph) is not None else None,
    )


def output_modes(graph: Graph) -> tuple[str, ...]:
    """Return the media types of the graph's answers; empty if its code alone does not tell them."""
    if reads_context(graph) or OUTBOX in graph.channels:
        return ()
    if not isinstance(graph, CompiledStateGraph):
        function = entrypoint_function(graph)
        return _modes_of(_returned(function)) if function is not None else ()
    if has_single_value(graph):
        return ()
    builder = graph.builder
    answers = [name for name in builder.schemas[builder.output_schema] if name in builder.channels]
    if builder.output_schema is not builder.state_schema and MESSAGES not in answers:
        hints = annotations_of(builder.output_schema)
        is_text = len(answers) == 1 and without_none(hints.get(answers[0])) is str
        return (TEXT,) if is_text else (JSON,)
    if MESSAGES not in graph.channels:
        return TEXT, JSON
    return (TEXT, JSON) if STRUCTURED in graph.channels else (TEXT,)


def _returned(function: Callable[..., Any]) -> Any:
    annotation = annotations_of(function).get("return", Any)
    if typing.get_origin(annotation) is entrypoint.final:
        annotation = typing.get_args(annotation)[0]
    return without_none(annotation)


def _modes_of(annotation: Any) -> tuple[str, ...]:
    """Return the media types of a returned value with this annotation."""
    if annotation in (Any, object, entrypoint.final):
        return TEXT, JSON
    if is_message(annotation) or is_messages(annotation):
        return (TEXT,)
    if reads_any_message(annotation) or (is_object(annotation) and MESSAGES in annotations_of(annotation)):
        return TEXT, JSON  # of a dict that has messages, the last message is the answer
    check = check_of_type(annotation)
    schema = InputValue(check, frozenset()).schema() if check is not None else None
    kinds = kinds_of(schema) if schema is not None else frozenset()
    return tuple(mode for kind, mode in (("text", TEXT), ("data", JSON)) if kind in kinds)


def _refusal(graph: Graph) -> Callable[[Message, bool], str]:
    has_state = isinstance(graph, CompiledStateGraph)
    return lambda message, continues: refusal(graph, message.parts, None if continues and has_state else {})


def _input_of(graph: Graph) -> tuple[AgentExtension | None, tuple[str, ...]]:
    """Return the extension with the JSON Schema of the graph's input, and examples of messages that start the graph."""
    contract = input_contract(graph)
    schema = contract.schema() if contract is not None and not reads_context(graph) else None
    if contract is None or schema is None:
        return None, ()
    params: dict[str, Any] = {"schema": schema}
    if isinstance(contract, InputFields) and contract.text is not None:
        params["text"] = contract.text
    extension = AgentExtension(uri=INPUT, description="Has the JSON Schema of a data part that starts a turn.")
    json_format.ParseDict(params, extension.params)
    example = contract.example()
    # Any text is an example of a text, and a text beside the data is missing in an example of data alone.
    says_nothing = schema == {"type": "string"} or (isinstance(contract, InputFields) and contract.has_messages)
    if example is None or says_nothing:
        return extension, ()
    return extension, (example if isinstance(example, str) else json.dumps(example, ensure_ascii=False),)
