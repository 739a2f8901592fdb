"""Input of a graph's turn."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_openai_messages
from langgraph.channels import LastValue
from langgraph.graph import add_messages
from langgraph.graph.state import CompiledStateGraph

from aion_core.agents.langgraph.canceled_calls import canceled_responses
from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, ROOT, Graph, has_single_value
from aion_core.agents.langgraph.input_contract import (
    input_annotation,
    input_contract,
    is_dicts,
    is_message,
    is_messages,
)
from aion_core.agents.langgraph.input_fields import InputFields, read_part
from aion_core.agents.langgraph.input_types import annotations_of, check_of_type, is_enforced, is_object
from aion_core.agents.langgraph.input_value import InputValue
from aion_core.agents.langgraph.parts import content_of
from aion_core.agents.langgraph.state import client_id
from aion_core.agents.turn_context import inbox_of
from aion_core.authoring.types import A2AInbox
from aion_core.engine.agent import TurnRequest
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.types import Part


def turn_input(graph: Graph, request: TurnRequest, before: Sequence[BaseMessage] = ()) -> Any:
    """Return the turn's input: the values of the state's channels, or what an `@entrypoint` is annotated with.

    `messages` has a HumanMessage with the text of the turn's message, and its files and data unless the graph reads
    them from `a2a_inbox`. The id of the HumanMessage is the messageId, so that a repeated turn does not add the message
    twice. `a2a_inbox` is the turn's A2AInbox. `a2a_outbox` is None, which clears the outbox of an earlier turn.
    `before` has the messages in the state. If a failed or lost turn has left tool calls without a result, the input
    begins with results "canceled", because models reject a conversation with such calls.
    """
    contract, parts = input_contract(graph), list(request.message.parts)
    if isinstance(contract, InputFields) and contract.has_messages:
        parts = [part for part in parts if not contract.is_filled_by(part)]
    content: Any = content_of(parts, files=INBOX not in graph.channels)
    message_id = request.message.message_id
    if any(message.id == message_id and not isinstance(message, HumanMessage) for message in before):
        # Use another id: a reducer such as `add_messages` would replace the agent's message by the client's.
        message_id = client_id(message_id)
    human = [HumanMessage(content=content, id=message_id)] if content else []
    if has_single_value(graph):
        # The input replaces a state without a reducer. A reducer is that of a list, such as `add_messages`.
        return {MESSAGES: human, INBOX: inbox_of(request)} if isinstance(graph.channels[ROOT], LastValue) else human
    if not isinstance(graph, CompiledStateGraph):
        return _functional_input(graph, request, human)
    given: dict[str, Any] = {MESSAGES: [*canceled_responses(before), *human]}
    # The reducer `add_messages` makes LangChain's messages of dicts, too.
    if getattr(graph.channels.get(MESSAGES), "operator", None) is not add_messages:
        given[MESSAGES] = _in_form_of(graph.builder.input_schema, given[MESSAGES])
    if INBOX in graph.channels:
        given[INBOX] = inbox_of(request)
    return {channel: value for channel, value in {**given, OUTBOX: None}.items() if channel in graph.channels}


def _in_form_of(schema: Any, messages: Sequence[BaseMessage]) -> Any:
    """Return the messages as the schema's `messages` are annotated: those of LangChain, or dicts as OpenAI's."""
    takes_dicts = is_dicts(annotations_of(schema).get(MESSAGES, Any))
    return convert_to_openai_messages(messages) if takes_dicts else messages


def _functional_input(graph: Graph, request: TurnRequest, human: list[HumanMessage]) -> Any:
    """Return the input of an `@entrypoint`, by its annotation. Without one it is a dict of messages, inbox and data."""
    annotation, contract, parts = input_annotation(graph), input_contract(graph), request.message.parts
    if annotation is A2AInbox:
        return inbox_of(request)
    if is_messages(annotation):
        return human
    if is_message(annotation):
        return human[0] if human else HumanMessage("", id=request.message.message_id)
    if isinstance(contract, InputValue):
        return contract.check.validate_python(contract.given(parts)[0])
    envelopes: dict[str, Any] = {MESSAGES: human, INBOX: inbox_of(request)}
    if not is_object(annotation):
        return {**_data(parts), **envelopes}
    named, envelopes[MESSAGES] = annotations_of(annotation), _in_form_of(annotation, human)
    filled = contract.given(parts)[0] if isinstance(contract, InputFields) else {}
    if not is_enforced(annotation):
        return {**filled, **(envelopes if not named or envelopes.keys() & named.keys() else {})}
    return _instance(annotation, {**filled, **{name: each for name, each in envelopes.items() if name in named}})


def _data(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the keys of the objects in data parts. The HumanMessage has this data too."""
    read = (read_part(part) for part in parts if part.WhichOneof("content") == "data" and not is_payload(part))
    return {key: item for _, value in read if isinstance(value, Mapping) for key, item in value.items()}


def _instance(annotation: Any, values: Mapping[str, Any]) -> Any:
    check = check_of_type(annotation)
    return check.validate_python(values) if check is not None else annotation(**values)


def clears_outbox(graph: Graph) -> bool:
    """Return True if the turn's input clears the outbox of an earlier turn. A reducer may prevent this."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)
