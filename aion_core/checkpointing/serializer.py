"""LangGraph's serializer, with the list of what a checkpoint may hold."""

from collections.abc import Iterable
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from aion_core.authoring.types import A2AOutbox
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message, Task

StoredType = tuple[str, str] | type
"""A class whose instances a checkpoint may hold: itself, or its module and name."""

OUR_TYPES: tuple[StoredType, ...] = (
    ("aion_core.authoring.types", "A2AInbox"),
    ("aion_core.authoring.types", "A2AOutbox"),
)


def serializer(types: Iterable[StoredType] = ()) -> JsonPlusSerializer:
    """Return LangGraph's serializer without pickle, which makes objects of listed classes and of no others.

    Listed are LangGraph's own safe types (messages, dates, `Send`, `Interrupt` and the like), ours, and `types`. An
    object of another class is stored all the same and comes back as the plain data it was made of.
    """
    return _Serializer(pickle_fallback=False, allowed_msgpack_modules=(*OUR_TYPES, *types))


class Unserializable(AgentFailed):
    """What the agent keeps holds a value that nothing can be written of; the sentence names its type."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The graph's state, or a question of it, holds a value ({what}) that cannot be kept from one step to the "
            "next. Hold plain data there, messages, pydantic models, dataclasses or enums, and make the rest where it is "
            "used."
        )


class _Serializer(JsonPlusSerializer):
    """LangGraph's, which knows no protobuf: an author may leave the SDK's own Message or Task as the outbox (D16)."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the object's type and bytes; a protobuf Message or Task in it comes back as an A2AOutbox.

        Raises Unserializable.
        """
        try:
            return super().dumps_typed(_without_protobuf(obj))
        except ormsgpack.MsgpackEncodeError as error:
            # "Type is not msgpack serializable: function"
            raise Unserializable(str(error).rpartition(": ")[2]) from error


def _without_protobuf(value: Any) -> Any:
    match value:
        case Message():
            return A2AOutbox(message=value)
        case Task():
            return A2AOutbox(task=value)
        case dict() if type(value) is dict:
            return {key: _without_protobuf(held) for key, held in value.items()}
        case list() if type(value) is list:
            return [_without_protobuf(held) for held in value]
        case _:
            return value
