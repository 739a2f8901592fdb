"""GetContext and GetContexts: Aion's own methods for conversations, only in JSON-RPC.

The older method names return v0.3's types. Names in the params may be camelCase or snake_case, as on Aion's own
servers.
"""

from collections.abc import Mapping
from typing import Any

from a2a.server.context import ServerCallContext

from aion_core.engine.listing.conversations import Conversation
from aion_core.errors import InvalidMessage
from aion_core.protocol.ids import ID_RULE, is_id
from aion_core.protocol.message_json import to_json
from aion_core.web.operations.operation import Operation, V03Form
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.call_context import call_of

DEFAULT_CONTEXTS, MAX_CONTEXTS = 50, 100
"""Default and maximum number of context ids in a response."""


async def _get(services: AgentServices, params: Mapping[str, Any], context: ServerCallContext) -> Conversation:
    context_id = _param(params, "contextId", "context_id")
    if not isinstance(context_id, str) or not is_id(context_id):
        raise InvalidMessage(f"contextId names the context, and has to be {ID_RULE}.", field="contextId")
    length, offset = _window(params)
    return await services.conversations.get(call_of(context), context_id, length=length, offset=offset)


async def _list(services: AgentServices, params: Mapping[str, Any], context: ServerCallContext) -> list[str]:
    length, offset = _window(params)
    if length is not None and length > MAX_CONTEXTS:
        raise InvalidMessage(
            f"historyLength is {length}: give at most {MAX_CONTEXTS}, and read on with historyOffset.",
            field="historyLength",
        )
    length = DEFAULT_CONTEXTS if length is None else length
    return list(await services.conversations.ids(call_of(context), length=length, offset=offset))


def _window(params: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return the requested number of entries (None if absent), and the number of newest entries to skip."""
    return (
        _number(params, "historyLength", "history_length"),
        _number(params, "historyOffset", "history_offset") or 0,
    )


def _param(params: Mapping[str, Any], name: str, snake_case: str) -> Any:
    return params.get(name, params.get(snake_case))


def _number(params: Mapping[str, Any], name: str, snake_case: str) -> int | None:
    value = _param(params, name, snake_case)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidMessage(f"{name} has to be a whole number, 0 or more.", field=name)
    return value


def _write(conversation: Conversation, params: Any) -> dict[str, Any]:
    return {
        "contextId": conversation.context_id,
        "history": [to_json(message) for message in conversation.history],
        "artifacts": [to_json(artifact) for artifact in conversation.artifacts],
        "status": to_json(conversation.status),
    }


GET_CONTEXT = Operation("GetContext", run=_get, write=_write, v03=V03Form("context/get"))
GET_CONTEXTS = Operation("GetContexts", run=_list, write=lambda ids, params: ids, v03=V03Form("contexts/get"))
