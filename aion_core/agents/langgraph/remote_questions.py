"""Questions of remote agents as interrupts of a graph, and the client's answers to them, whole."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt, interrupt

from aion_core.agents.questions import Question
from aion_core.authoring.a2a_objects import message_of
from aion_core.protocol.interrupts import INTERRUPT_ID, OpenQuestion, interrupt_id_of, questions_of
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Part, TaskState

QUESTION, ANSWER = "aion:remoteQuestion", "aion:remoteAnswer"
"""Keys of an interrupt's value and of its answer: the parts of A2A messages, as JSON."""


def ask_client(message: Message, state: TaskState) -> list[Part]:
    """Interrupt the graph for each question in the remote agent's message. Return the parts of the client's answers."""
    questions = questions_of(message)
    if len(questions) <= 1:
        return _asked(message.parts, questions[0] if questions else None, state)
    answers: list[Part] = []
    for question in questions:
        asked = [part for part in message.parts if interrupt_id_of(part) == question.id]
        for part in _asked(asked or [Part(text=question.text)], question, state):
            part.metadata.update({INTERRUPT_ID: question.id})
            answers.append(part)
    return answers


def skip_answered(answer: Message) -> None:
    """Take the answers to the questions that this message has answered, so that the next interrupt gets the next answer."""
    for _ in range(max(1, len({interrupt_id_of(part) for part in answer.parts}))):
        interrupt("")


def _asked(parts: Sequence[Part], question: OpenQuestion | None, state: TaskState) -> list[Part]:
    shown = [Part.FromString(part.SerializeToString()) for part in parts]
    for part in shown:
        part.ClearField("metadata")
    value = {
        "message": to_json(Message(parts=shown)),
        "schema": dict(question.schema) if question is not None else {},
        "choices": list(question.choices) if question is not None else [],
        "auth": state == TaskState.TASK_STATE_AUTH_REQUIRED,
    }
    answer = interrupt({QUESTION: value})
    if isinstance(answer, Mapping) and ANSWER in answer:
        return list(message_of(answer[ANSWER]).parts)
    return [Part(text=str(answer))]


def is_remote(asked: Interrupt) -> bool:
    """Return True for a question of a remote agent."""
    return isinstance(asked.value, Mapping) and QUESTION in asked.value


def question_of(asked: Interrupt) -> Question:
    """Return the question of a remote agent in an interrupt, for the client."""
    value = asked.value[QUESTION]
    parts = list(message_of(value["message"]).parts) if value["message"].get("parts") else []
    text = "".join(part.text for part in parts if part.WhichOneof("content") == "text")
    details = [part for part in parts if part.WhichOneof("content") != "text"]
    return Question(asked.id, text, details, value["schema"] or None, value["choices"])


def answer_of(parts: Sequence[Part]) -> Any:
    """Return the client's answer to a question of a remote agent, as the value that resumes its interrupt."""
    own = [Part.FromString(part.SerializeToString()) for part in parts]
    for part in own:
        if INTERRUPT_ID in part.metadata.fields:
            del part.metadata[INTERRUPT_ID]
    return {ANSWER: to_json(Message(parts=own))}


def need_authorization(asked: Collection[Interrupt]) -> bool:
    """Return True if remote agents wait for an authorization, and nobody for anything else."""
    return bool(asked) and all(is_remote(each) and each.value[QUESTION]["auth"] for each in asked)
