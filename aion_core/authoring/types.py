"""Inbox and outbox: the A2A input and output of a turn in the state of an agent.

They are pydantic models of the SDK's protobuf types, serialised as v1 JSON, also in LangGraph's checkpoints.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from aion_core.authoring.a2a_objects import json_of, kind_of, message_of, task_of
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message, Task

_MessageField = Annotated[
    Message,
    BeforeValidator(message_of),
    PlainSerializer(json_of, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object", "title": "Message", "description": "An A2A Message, in v1 JSON."}),
]
_TaskField = Annotated[
    Task,
    BeforeValidator(task_of),
    PlainSerializer(json_of, return_type=dict[str, Any]),
    WithJsonSchema({"type": "object", "title": "Task", "description": "An A2A Task, in v1 JSON."}),
]


class _Envelope(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the fields as JSON, because LangGraph's cache pickles a node's input, and the SDK's types cannot be
        # pickled.
        return type(self).model_validate, (self.model_dump(),)


class A2AInbox(_Envelope):
    """Input of a turn: the current task, the whole inbound message, and the request's metadata."""

    # Ignore unknown fields, because a newer version may have written the checkpoint.
    model_config = ConfigDict(extra="ignore")

    task: _TaskField
    """The task at the beginning of the turn."""
    message: _MessageField
    """The inbound message, with its files and data."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Metadata of the request, such as the source network or a trace."""


class A2AOutbox(_Envelope):
    """Output of a turn, set by the author: either a message, or a task to merge into the server's task.

    Message and task may be an SDK object, v1 or v0.3 JSON, or an SDK model of v0.3. The server sets ids and keys with
    the prefix `aion:`, and ignores those of the author.
    """

    model_config = ConfigDict(extra="forbid")

    message: _MessageField | None = None
    """Message for the task's history."""
    task: _TaskField | None = None
    """Task to merge into the server's task. Its history and artifacts are appended, and its metadata is merged."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.message is None) == (self.task is None):
            raise ValueError("An A2AOutbox holds either a message or a task: give exactly one of them.")
        return self


def outbox_of(value: Any) -> A2AOutbox:
    """Convert the value under `a2a_outbox` in an agent's state to an A2AOutbox.

    Raises AgentFailed with a message for the author if the value, such as None, cannot be sent.
    """
    if isinstance(value, A2AOutbox):
        return value
    try:
        return A2AOutbox(**_given(value))
    except ValidationError as error:
        sentence = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise AgentFailed(f"a2a_outbox cannot be sent. {sentence}") from error


def _given(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        set_ = {key: held for key, held in value.items() if held is not None}
        if set_ and set_.keys() <= A2AOutbox.model_fields.keys():
            return set_
    kind = kind_of(value)
    if kind is None:
        raise AgentFailed(
            f"a2a_outbox holds neither an A2A Message nor a Task, but {type(value).__name__}: "
            "give it A2AOutbox(message=…) or A2AOutbox(task=…)."
        )
    return {kind: value}
