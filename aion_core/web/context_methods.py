"""JSON-RPC's two methods beyond A2A, `GetContext` and `GetContexts`: their params, and their results in both dialects.

Their older names are of v0.3, and so is what they answer with; params are read in either spelling, as Aion's own
servers do.
"""

from collections.abc import Mapping
from typing import Any

from a2a.compat.v0_3 import conversions
from google.protobuf.json_format import MessageToDict
from pydantic import BaseModel

from aion_core.errors import InvalidMessage
from aion_core.protocol.limits import ID_RULE, is_id
from aion_core.tasks.call import Call
from aion_core.tasks.conversations import Conversation, Conversations
from aion_core.web.request_context import V03, V1
from aion_core.web.rpc import OwnMethod

DEFAULT_CONTEXTS, MAX_CONTEXTS = 50, 100
"""How many contexts are listed at once where nothing is said, and at the most."""


def context_methods(conversations: Conversations) -> dict[str, OwnMethod]:
    """Return the methods by their names, of which each says its protocol version, as ever (D1)."""

    async def in_v1(params: Mapping[str, Any], call: Call) -> Any:
        return _v1(await _get(conversations, params, call))

    async def in_v03(params: Mapping[str, Any], call: Call) -> Any:
        return _v03(await _get(conversations, params, call))

    async def ids(params: Mapping[str, Any], call: Call) -> Any:
        return await _ids(conversations, params, call)

    return {
        "GetContext": OwnMethod(V1, in_v1),
        "GetContexts": OwnMethod(V1, ids),
        "context/get": OwnMethod(V03, in_v03),
        "contexts/get": OwnMethod(V03, ids),
    }


async def _get(conversations: Conversations, params: Mapping[str, Any], call: Call) -> Conversation:
    context_id = _given(params, "contextId", "context_id")
    if not isinstance(context_id, str) or not is_id(context_id):
        raise InvalidMessage(f"contextId names the context, and has to be {ID_RULE}.", field="contextId")
    length, offset = _window(params)
    return await conversations.get(call, context_id, length=length, offset=offset)


async def _ids(conversations: Conversations, params: Mapping[str, Any], call: Call) -> list[str]:
    length, offset = _window(params)
    if length is not None and length > MAX_CONTEXTS:
        raise InvalidMessage(
            f"historyLength is {length}: give at most {MAX_CONTEXTS}, and read on by historyOffset.",
            field="historyLength",
        )
    return list(await conversations.ids(call, length=DEFAULT_CONTEXTS if length is None else length, offset=offset))


def _window(params: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return how many are asked for, None where nothing is said, and how many of the newest are passed over."""
    return (
        _number(params, "historyLength", "history_length"),
        _number(params, "historyOffset", "history_offset") or 0,
    )


def _v1(found: Conversation) -> dict[str, Any]:
    return {
        "contextId": found.context_id,
        "history": [MessageToDict(message) for message in found.history],
        "artifacts": [MessageToDict(artifact) for artifact in found.artifacts],
        "status": MessageToDict(found.status),
    }


def _v03(found: Conversation) -> dict[str, Any]:
    status = conversions.to_compat_task_status(found.status)
    return {
        "contextId": found.context_id,
        "history": [_json(conversions.to_compat_message(message)) for message in found.history],
        "artifacts": [_json(conversions.to_compat_artifact(artifact)) for artifact in found.artifacts],
        "status": _json(status),
    }


def _json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _given(params: Mapping[str, Any], name: str, older: str) -> Any:
    return params.get(name, params.get(older))


def _number(params: Mapping[str, Any], name: str, older: str) -> int | None:
    given = _given(params, name, older)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise InvalidMessage(f"{name} has to be a whole number, 0 or more.", field=name)
    return given
