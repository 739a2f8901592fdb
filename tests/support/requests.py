"""SendMessage request that the tests of the engine share."""

from typing import Any

from aion_core.protocol.types import Message, Part, Role, SendMessageRequest


def request(
    text: str = "hi", *, message_id: str = "m-1", context_id: str = "c", task_id: str = "", **configuration: Any
) -> SendMessageRequest:
    message = Message(
        message_id=message_id, context_id=context_id, task_id=task_id, role=Role.ROLE_USER, parts=[Part(text=text)]
    )
    return SendMessageRequest(message=message, configuration=configuration)
