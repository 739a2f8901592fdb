"""Messages of a task as a client reads them. The history ends with the message of the task's status."""

from typing import Any

from aion_core.protocol.types import Message, Task


def messages_of(task: Task) -> list[Message]:
    """Return all messages of the task, each once. Check that the status message is the last of the history."""
    history = list(task.history)
    if task.status.HasField("message"):
        assert history[-1:] == [task.status.message]
    assert len({message.message_id for message in history}) == len(history), "a message twice"
    return history


def before_status(task: Task) -> list[Message]:
    """Return the messages before the status message. Check that the history ends with that message."""
    messages = messages_of(task)
    return messages[:-1] if task.status.HasField("message") else messages


def json_messages_of(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all messages of a task in JSON, each once. Check that the status message is the last of the history."""
    history: list[dict[str, Any]] = task.get("history", [])
    if "message" in task["status"]:
        assert history[-1:] == [task["status"]["message"]]
    assert len({message["messageId"] for message in history}) == len(history), "a message twice"
    return history


def json_before_status(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages in JSON before the status message. Check that the history ends with that message."""
    messages = json_messages_of(task)
    return messages[:-1] if "message" in task["status"] else messages
