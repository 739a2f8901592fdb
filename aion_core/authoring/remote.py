"""Calls of other agents (A2A) by an agent's author, in code of any framework.

The server makes a `RemoteCaller` for each turn. It stores a call before its message is sent, so that the call goes on
after the loss of either process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from aion_core.authoring.a2a_objects import message_of
from aion_core.authoring.json_values import as_value
from aion_core.authoring.turn_variables import variable_set
from aion_core.protocol.answer_artifacts import is_answer
from aion_core.protocol.message_json import to_json
from aion_core.protocol.reserved_keys import without_reserved_keys, without_reserved_metadata
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Artifact, Message, Part, Role, Task

Said = str | Sequence[str | Part] | Message | Mapping[str, Any]
"""Message to another agent: a text, texts and parts, or an A2A Message (the SDK's class, or its JSON)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAnswer:
    """Answer of another agent: a task that has completed, or a message."""

    text: str
    """Text of the answer: that of its last message, or else of its artifacts."""
    data: list[Any] = field(default_factory=list)
    """Values of the data parts of the answer and its artifacts."""
    files: list[Part] = field(default_factory=list)
    """Files of the other agent's messages and artifacts. They are also artifacts of your own task."""
    artifacts: list[Artifact] = field(default_factory=list)
    """Artifacts of the other agent's task."""
    message: Message | None = None
    """The answer as a message; None if the task has only artifacts."""
    task: Task | None = field(default=None, repr=False)
    """The other agent's task; None if it has answered with a message."""


RemoteCaller = Callable[[str, Message, Mapping[str, Any], str], Awaitable[RemoteAnswer]]
"""Function that calls another agent for a turn: with the agent, the message, the request's metadata and the call's key."""


async def call_agent(
    agent: str, message: Said, *, metadata: Mapping[str, Any] | None = None, key: str = ""
) -> RemoteAnswer:
    """Send a message to another agent (A2A) and return its answer.

    `agent` is a name under `remotes` in aion.yaml, or the URL of the agent or its card. `metadata` is sent with the
    request. The call survives the loss of either process: code that runs again gets the answer of the same remote task.
    The calls of a node are recognised by their order and their message. If a node that runs again may make them in
    another order and with other messages, name each by a `key`.

    A question of the other agent becomes a question of your task, and the client's answer goes to the other agent.

    Raises RemoteAgentFailed, RemoteAgentRefused or RemoteAgentUnreachable, all of them RemoteAgentError. Without a
    handler, the task fails with the error's text. Raises RuntimeError outside of a turn, TypeError or ValueError for an
    unsuitable message, and ConfigurationError for a name that aion.yaml lacks.
    """
    try:
        caller = _current.get()
    except LookupError:
        raise RuntimeError(
            "No turn of an agent is running here: call_agent() is for code that runs while it answers a message."
        ) from None
    if not isinstance(agent, str) or not agent:
        raise TypeError("call_agent takes the name of a remote in aion.yaml, or a URL.")
    if not isinstance(metadata, Mapping | None):
        raise TypeError(f"call_agent's metadata is {type(metadata).__name__}: give it as a dict.")
    own = without_reserved_keys(metadata or {})
    as_value(own, "call_agent's metadata")
    said = _message(message)
    return await caller(agent, said, own, key)


async def call_agents(
    calls: Sequence[tuple[str, Said]], *, metadata: Mapping[str, Any] | None = None
) -> list[RemoteAnswer]:
    """Send messages to other agents at the same time, and return their answers in the same order.

    Each call is an agent with its message. See `call_agent`; the first error is raised.
    """
    return await asyncio.gather(*(call_agent(agent, message, metadata=metadata) for agent, message in calls))


_current: ContextVar[RemoteCaller] = ContextVar("aion_remote_caller")


def remote_caller_set(caller: RemoteCaller) -> AbstractContextManager[None]:
    """Return a context manager in which `call_agent` makes its calls by the given caller."""
    return variable_set(_current, caller)


def answer_of_task(task: Task) -> RemoteAnswer:
    """Return the answer in a task that has ended. Without a last message and artifacts, it is what the agent said last."""
    message = task.status.message if task.status.HasField("message") else None
    spoken = messages_of_agent(task)
    if message is None and not task.artifacts and spoken:
        message = spoken[-1]
    in_artifacts = [part for artifact in task.artifacts for part in artifact.parts]
    parts = [*(message.parts if message is not None else ()), *in_artifacts]
    answers = [artifact for artifact in task.artifacts if is_answer(artifact)]
    said = _text(message.parts) if message is not None else ""
    return RemoteAnswer(
        text=said or "\n".join(filter(None, (_text(artifact.parts) for artifact in answers or task.artifacts))),
        data=_data(parts),
        files=[*(part for each in spoken for part in _files(each.parts)), *_files(in_artifacts)],
        artifacts=list(task.artifacts),
        message=message,
        task=task,
    )


def messages_of_agent(task: Task) -> list[Message]:
    """Return what the agent has said in its task, in order, each message once."""
    spoken = [message for message in task.history if message.role == Role.ROLE_AGENT]
    if task.status.HasField("message"):
        spoken.append(task.status.message)
    return list({message.message_id: message for message in spoken}.values())


def answer_of_message(message: Message) -> RemoteAnswer:
    """Return the answer of an agent that has answered with a message."""
    return RemoteAnswer(
        text=_text(message.parts), data=_data(message.parts), files=_files(message.parts), message=message
    )


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if part.WhichOneof("content") == "text")


def _data(parts: Sequence[Part]) -> list[Any]:
    return [to_json(part.data) for part in parts if part.WhichOneof("content") == "data"]


def _files(parts: Sequence[Part]) -> list[Part]:
    return list(filter(is_file, parts))


def is_file(part: Part) -> bool:
    """Return True if the part is a file: its bytes or its URL."""
    return part.WhichOneof("content") in ("raw", "url")


def _message(said: Any) -> Message:
    """Return what is said as a message. Raises TypeError, or ValueError if it has no parts."""
    if isinstance(said, str):
        message = Message(parts=[Part(text=utf8(said))])
    elif isinstance(said, Sequence):
        message = Message(parts=[Part(text=utf8(each)) if isinstance(each, str) else each for each in said])
    else:
        try:
            message = without_reserved_metadata(message_of(said))
        except ValueError as error:
            raise TypeError(f"call_agent takes a text, a list of parts, or an A2A Message. {error}") from error
    if not message.parts:
        raise ValueError("The message given to call_agent has no parts: give it at least one.")
    return message
