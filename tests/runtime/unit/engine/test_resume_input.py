"""Interrupt ids in a client's message, and the check of the message against the state of its task."""

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from aion_core.engine.resume_input import check_resume_input
from aion_core.errors import InputNotRequired, InvalidMessage
from aion_core.protocol.interrupts import names_interrupt
from aion_core.protocol.types import Message, Part, Task, TaskState, TaskStatus


def message(of_message: Any = None, *of_parts: Any) -> Message:
    parts = [{"text": "yes", "metadata": {"interruptId": each}} for each in of_parts] or [{"text": "yes"}]
    return ParseDict({"taskId": "t-1", "parts": parts, "metadata": {"interruptId": of_message}}, Message())


def task(state: TaskState, *ids: str) -> Task:
    listed = [{"id": each} for each in ids]
    question = ParseDict({"metadata": {"interruptId": ids[0], "interrupts": listed}} if ids else {}, Message())
    return Task(id="t-1", status=TaskStatus(state=state, message=question))


@pytest.mark.parametrize("given", [message(), message(""), message(None, None)])
def test_message_with_null_or_empty_interrupt_id_names_none(given: Message) -> None:
    assert not names_interrupt(given)
    check_resume_input(task(TaskState.TASK_STATE_WORKING), given)
    check_resume_input(task(TaskState.TASK_STATE_INPUT_REQUIRED, "i-1"), given)


@pytest.mark.parametrize("given", [message("i-1"), message(None, "i-1")])
def test_answer_is_refused_while_task_is_working(given: Message) -> None:
    with pytest.raises(InputNotRequired, match="answered already"):
        check_resume_input(task(TaskState.TASK_STATE_WORKING), given)
    check_resume_input(task(TaskState.TASK_STATE_INPUT_REQUIRED, "i-1"), given)


@pytest.mark.parametrize("given", [message(), message("i-3"), message(None, "i-1", None)])
def test_answer_must_name_one_of_several_interrupts(given: Message) -> None:
    with pytest.raises(InvalidMessage, match="i-1, i-2"):
        check_resume_input(task(TaskState.TASK_STATE_AUTH_REQUIRED, "i-1", "i-2"), given)


def test_file_names_its_interrupt_only_if_it_is_the_answer() -> None:
    """With several interrupts, a file alone must name one of them; a file beside a text need not."""
    two = task(TaskState.TASK_STATE_INPUT_REQUIRED, "i-1", "i-2")
    file = Part(raw=b"x")
    with pytest.raises(InvalidMessage, match="i-1, i-2"):
        check_resume_input(two, Message(task_id="t-1", parts=[file]))
    beside = message(None, "i-1")
    beside.parts.append(file)
    check_resume_input(two, beside)
    file.metadata.update({"interruptId": "i-2"})
    check_resume_input(two, Message(task_id="t-1", parts=[file]))
