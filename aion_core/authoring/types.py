"""What an agent's code finds in its state, and what it leaves there: the A2A envelopes.

They are pydantic models over the SDK's protobuf types, and are written as v1 JSON, by LangGraph's checkpoints too.
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

from aion_core.authoring.json_forms import json_of, kind_of, message_of, task_of
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
        # The SDK's types cannot be pickled, and LangGraph's cache of node results pickles what a node is given.
        return type(self).model_validate, (self.model_dump(),)


class A2AInbox(_Envelope):
    """What came in: the current task, the whole inbound message, and the request's metadata (R51)."""

    # What it does not know it ignores: a checkpoint may have been written by a newer version than the one that reads it.
    model_config = ConfigDict(extra="ignore")

    task: _TaskField
    """The task as it was when the turn began."""
    message: _MessageField
    """The inbound message, with its files and data."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What came with the request beside the message, such as the distribution's network or a trace."""


class A2AOutbox(_Envelope):
    """What is to go out: either a message, or a task that is merged into the server's (R74).

    Each may be given as the SDK's type, as v1 or v0.3 JSON, or as the SDK's model of v0.3 (D16). Ids and keys that
    begin with `aion:` are the server's; what is set there is ignored (R75, R76).
    """

    model_config = ConfigDict(extra="forbid")

    message: _MessageField | None = None
    """Becomes part of the task's history."""
    task: _TaskField | None = None
    """A patch: history and artifacts are added to the task's, metadata is merged into it."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.message is None) == (self.task is None):
            raise ValueError("An A2AOutbox holds either a message or a task: give exactly one of them.")
        return self


def outbox_of(value: Any) -> A2AOutbox:
    """Return what a graph or an agent has put under `a2a_outbox`, in whichever form (D16).

    Raises AgentFailed, with a sentence for its author, where it cannot be sent. None is no outbox: ask before.
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
