"""Interrupts of a graph: the question for the client, and the Command that resumes the graph with the answer."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from traceback import walk_tb
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt, StateSnapshot
from langgraph.types import interrupt as ask
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from aion_core.agents.call_text import call_text
from aion_core.agents.client_answers import PAUSED_BEFORE, accepted_answers, interrupt_ids
from aion_core.agents.expected_answers import ExpectedAnswer, expected_answer, is_generated
from aion_core.agents.langgraph import remote_questions
from aion_core.agents.langgraph.agent_inbox import Inbox, inbox_of
from aion_core.agents.langgraph.approvals import Review, review_of
from aion_core.agents.langgraph.parts import content_of, content_parts, sent_data
from aion_core.agents.langgraph.state import messages_of, values_of
from aion_core.agents.plain_json import plain_json
from aion_core.agents.questions import Question, question_message
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.resume_input import has_only_files, parts_by_interrupt, resume_value
from aion_core.protocol.types import Message, Part, Role, TaskState


def input_required(
    interrupts: Sequence[Interrupt], *, rejection: str = "", schemas: Mapping[str, Any] | None = None
) -> InputRequired:
    """Return the end of a turn with the question of each interrupt as text, and its other values as data.

    With several interrupts, each part has the id of its interrupt in its metadata. The message begins with `rejection`,
    the reason for refusing an earlier answer. `schemas` replaces schemas of interrupts, by id.
    """
    schemas = schemas or {}
    questions = [_question(each, schemas.get(each.id)) for each in interrupts]
    message = question_message(questions, error=rejection)
    if remote_questions.need_authorization(interrupts):
        return InputRequired(message, TaskState.TASK_STATE_AUTH_REQUIRED)
    return InputRequired(message)


def paused_nodes(state: StateSnapshot) -> list[str]:
    """Return the names of the nodes to run next. For a subgraph that has begun, return its own next nodes."""
    nested = {
        task.name: task.state for task in state.tasks if isinstance(task.state, StateSnapshot) and task.state.next
    }
    return [name for node in state.next for name in (paused_nodes(nested[node]) if node in nested else [node])]


def breakpoint_before(state: StateSnapshot) -> InputRequired:
    """Return the end of a turn paused at a static breakpoint. Any answer resumes the graph.

    The question names the next nodes and, before a node that runs tools, the calls that the model asks for.
    """
    nodes, calls = paused_nodes(state), ", ".join(_pending_calls(state))
    wants = f" The agent wants to call {calls}." if calls else ""
    text = f"Paused before {', '.join(nodes)}.{wants} Any answer lets it go on; cancel the task to stop."
    return InputRequired(Message(role=Role.ROLE_AGENT, parts=[Part(text=text)], metadata={PAUSED_BEFORE: list(nodes)}))


def _pending_calls(state: StateSnapshot) -> list[str]:
    """Return the tool calls at the end of the messages as texts. A subgraph that has begun has its own messages."""
    nested = [task.state for task in state.tasks if isinstance(task.state, StateSnapshot) and task.state.next]
    if nested:
        return [call for each in nested for call in _pending_calls(each)]
    calls = [each.tool_calls for each in messages_of(values_of(state))[-1:] if isinstance(each, AIMessage)]
    return [call_text(call["name"], call["args"]) for call in (calls[0] if calls else [])]


def resume_command(
    request: TurnRequest, question: Message, pending: Sequence[Interrupt], tools: Collection[str]
) -> tuple[Command[Any] | None, str]:
    """Return the Command that resumes the interrupts answered by the client's message, and the refusal of the others.

    An answer belongs to the interrupt named in the metadata of its part or message, else to the question's only
    interrupt. The Command is None if none of the accepted answers' interrupts is pending, because an earlier attempt of
    the turn has resumed them. `tools` has the names of the graph's tools. Raises InvalidResumeInput if no answer is
    accepted.
    """
    answers = parts_by_interrupt(request.message, interrupt_ids(question))

    def value(interrupt: Interrupt, parts: Sequence[Part]) -> Any:
        if remote_questions.is_remote(interrupt):
            return remote_questions.answer_of(parts)
        answer = content_of(parts, files=True) if has_only_files(parts) else resume_value(parts)
        approval = _approval_of(interrupt)
        return approval.value_of(answer, tools) if approval is not None else _form_of(interrupt).fitted(answer)

    values, rejection = accepted_answers(answers, {each.id: each for each in pending}, value)
    return Command(resume=values) if values else None, rejection


class AnswerRefusal(Struct, frozen=True):
    """Refusal of an answer by an interrupt's response schema."""

    reason: str
    """Message for the client."""
    schemas: Mapping[str, Any]
    """The refusing schema by each id that the interrupt may have; empty if it is not known or has no JSON form."""

    def concerns(self, pending: Sequence[Interrupt]) -> bool:
        """Return True unless the refused answer is an earlier one, whose interrupt is no longer pending."""
        return not self.schemas or any(interrupt.id in self.schemas for interrupt in pending)


def answer_refusal(error: BaseException) -> AnswerRefusal | None:
    """Return the refusal if an interrupt's response schema has refused an answer; None for other errors."""
    if not isinstance(error, ValidationError) or not is_invalid_resume(error):
        return None
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    reason = f"The answer does not fit the question{f', in {where}' if where else ''}: {first['msg']}."
    return AnswerRefusal(reason, _refusing_schemas(error))


def _refusing_schemas(error: BaseException) -> dict[str, Any]:
    """Return the schema that has refused an answer, by each id that its interrupt may have.

    A deployment may have changed the schema since LangGraph stored the interrupt. Neither the stored interrupt nor the
    error has the new schema, so read it from the variables of LangGraph's `interrupt`.
    """
    for frame, _ in walk_tb(error.__traceback__):
        match frame.f_locals if frame.f_code is ask.__code__ else {}:
            case {"adapter": TypeAdapter() as adapter, "idx": int(number), "conf": {"checkpoint_ns": str(ns)}}:
                # LangGraph derives the id from the number of the node's earlier answers. Older versions did not.
                names = {ns, f"{ns}|{number}" if number else ns}
                with suppress(PydanticUserError):  # a class may have no JSON Schema
                    schema = adapter.json_schema()
                    return {Interrupt.from_ns(None, name).id: schema for name in names}
    return {}


def _question(interrupt: Interrupt, schema: Any = None) -> Question:
    """Return the interrupt's question. `schema` replaces the interrupt's own schema."""
    if remote_questions.is_remote(interrupt):
        return remote_questions.question_of(interrupt)
    (text, details), approval, form = (
        _prompt_and_details(interrupt),
        _approval_of(interrupt),
        _form_of(interrupt, schema),
    )
    choices = form.choices if approval is None else approval.choices()
    return Question(interrupt.id, text, details, form.schema, choices)


def _form_of(interrupt: Interrupt, schema: Any = None) -> ExpectedAnswer:
    """Return the form of the interrupt's answer.

    LangGraph itself checks an answer by a class, but not by a JSON Schema that the author has written.
    """
    own = schema or interrupt.response_schema
    is_checked = isinstance(own, Mapping) and not is_generated(own)
    value = interrupt.value if isinstance(interrupt.value, Mapping) else plain_json(interrupt.value)
    return expected_answer(value, own, is_checked=is_checked)


def _approval_of(interrupt: Interrupt) -> Review | Inbox | None:
    """Return the approval that the interrupt requests in a form of LangChain; None for any other question."""
    return review_of(interrupt) or inbox_of(interrupt.value)


_PROMPTS = (
    *("prompt", "question", "query", "message"),
    *("instruction", "instructions", "task", "description", "text", "title"),
)
"""Keys under which authors put the question into an interrupt's value, in order of precedence."""


def _prompt_and_details(interrupt: Interrupt) -> tuple[str, list[Part]]:
    """Return an interrupt's question as text, and the rest of its value as parts: data, or the files of a message."""
    value = interrupt.value
    if isinstance(value, BaseMessage):
        parts = content_parts(value)
        is_text = bool(parts) and parts[0].WhichOneof("content") == "text"
        return (parts[0].text, parts[1:]) if is_text else ("", parts)
    text, data = _prompt_and_data(interrupt)
    part = sent_data(data)
    return text, [part] if part is not None else []


def _prompt_and_data(interrupt: Interrupt) -> tuple[str, Any]:
    """Return an interrupt's question as text, and its other values as data.

    The text is the interrupt's value if it is a string, else the first of its values under a key in `_PROMPTS`, else
    the value as JSON.
    """
    value, approval = interrupt.value, _approval_of(interrupt)
    if approval is not None:
        return approval.text(), value
    value = plain_json(value)
    if isinstance(value, dict):
        for prompt in _PROMPTS:
            if isinstance(value.get(prompt), str):
                return value[prompt], {key: item for key, item in value.items() if key != prompt}
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False), value
    return str(value), None
