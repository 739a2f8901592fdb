"""Client's answers to the questions of an interrupted turn."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aion_core.engine.agent import TurnRequest
from aion_core.protocol.interrupts import INTERRUPT_ID, questions_of
from aion_core.protocol.types import Message, Role

T = TypeVar("T")

PAUSED_BEFORE = "pausedBefore"
"""Metadata key of a question for the names of the nodes at a graph's static breakpoint."""

QUESTION_EXPIRED = (
    "The agent can no longer use this answer: its state at the question has expired, or was deleted. Send the task's first "
    "message again with a new id."
)
"""Reason of AgentFailed for an answer to a question whose checkpoint or session no longer exists."""


class InvalidResumeInput(ValueError):
    """Error: the pending interrupt does not accept the client's answer. The text names the accepted answers."""


def answered_question(request: TurnRequest) -> Message | None:
    """Return the agent's question that the turn's message answers; None if the message answers no question."""
    history = request.task.history
    place = next((n for n, message in enumerate(history) if message.message_id == request.message.message_id), 0)
    before = history[place - 1] if place else None
    if before is None or before.role != Role.ROLE_AGENT:
        return None
    return before if {INTERRUPT_ID, PAUSED_BEFORE} & before.metadata.fields.keys() else None


def accepted_answers(
    answers: Mapping[str, Any], pending: Mapping[str, T], convert: Callable[[T, Any], Any]
) -> tuple[dict[str, Any], str]:
    """Return the converted answers to pending interrupts by id, and the reason for refusing the others, "" if none.

    `convert` returns the form of an answer that the interrupt accepts, or raises InvalidResumeInput. Raises
    InvalidResumeInput if no answer is accepted. An answer to an interrupt that is no longer pending was accepted by an
    earlier try of the turn.
    """
    accepted: dict[str, Any] = {}
    rejection: InvalidResumeInput | None = None
    for name, interrupt in pending.items():
        if name in answers:
            try:
                accepted[name] = convert(interrupt, answers[name])
            except InvalidResumeInput as error:
                rejection = rejection or error
    if rejection is not None and not accepted and answers.keys() <= pending.keys():
        raise rejection
    return accepted, str(rejection or "")


def interrupt_ids(question: Message | None) -> list[str]:
    """Return the ids of the interrupts in an agent's question, in the order of the question."""
    return [each.id for each in questions_of(question)] if question is not None else []
