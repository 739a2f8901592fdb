"""Serializer of LangGraph's checkpoints: allowed types, and none that hold secrets."""

from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from aion_core.authoring.types import A2AOutbox
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message, Task
from aion_core.state.langgraph.class_record import recorded_classes
from aion_core.state.langgraph.stored_objects import ListedClasses, ObjectReader

StoredType = tuple[str, str] | type
"""Class of objects in a checkpoint: the class itself, or its module and name."""

OUR_TYPES: tuple[StoredType, ...] = (
    ("aion_core.authoring.types", "A2AInbox"),
    ("aion_core.authoring.types", "A2AOutbox"),
)

SECRET_TYPES: tuple[StoredType, ...] = (("pydantic.types", "SecretStr"), ("pydantic.types", "SecretBytes"))
"""Types restored as objects of their class, because plain text would show a secret in answers, questions and logs."""


@lru_cache(maxsize=64)
def serializer(types: frozenset[StoredType] = frozenset(), *, strict: bool = True) -> JsonPlusSerializer:
    """Return LangGraph's serializer without pickle. It restores only objects of listed classes.

    The list has LangGraph's safe types (messages, dates, `Send`, `Interrupt` and the like), OUR_TYPES, SECRET_TYPES and
    `types`. Objects of other classes are stored too, but restored as plain data. If the writer of a value has listed a
    class that the reader cannot restore, a strict reader raises UnrestorableState, and another one restores plain data.
    """
    return _Serializer(types, strict=strict)


class UnserializableState(AgentFailed):
    """Error: the agent's state contains a value that cannot be stored. The message names the value's type."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The graph's state, or an interrupt of it, holds a value ({what}) that cannot be stored from one step to the "
            "next. Hold plain data there, messages, pydantic models, dataclasses or enums, and make the rest where it is "
            "used."
        )


class _Serializer(JsonPlusSerializer):
    """LangGraph's serializer, extended for protobuf and for classes that change in a deployment.

    An agent's state may contain a Message or Task of the A2A SDK. The type of a value with objects of listed classes is
    "msgpack" and the record of these classes.
    """

    def __init__(self, types: Collection[StoredType], *, strict: bool) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=(*OUR_TYPES, *SECRET_TYPES, *types))
        self._classes = ListedClasses([kind for kind in types if isinstance(kind, type)])
        self._strict = strict

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize an object to a type and bytes. A protobuf Message or Task in it is later restored as an A2AOutbox.

        Raises UnserializableState for a value that cannot be serialized.
        """
        try:
            serialized = super().dumps_typed(obj)
        except ormsgpack.MsgpackEncodeError:
            # Search the object for protobuf messages only after LangGraph's serializer has failed, because few states
            # contain one.
            serialized = self._dumps_protobuf(obj)
        if self._classes.searched and serialized[0] == "msgpack":
            return f"msgpack{self._classes.record(serialized[1])}", serialized[1]
        return serialized

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Restore an object. Raises UnrestorableState if its record names a class that the reader cannot restore."""
        kind, content = data
        if ";" not in kind:
            return super().loads_typed(data)
        allowed = self._allowed_msgpack_modules
        reader = ObjectReader(
            recorded_classes(kind),
            self._classes,
            self._unpack_ext_hook,
            allowed if isinstance(allowed, set) else (),
            strict=self._strict,
        )
        return reader.read(content)

    def _dumps_protobuf(self, obj: Any) -> tuple[str, bytes]:
        try:
            return super().dumps_typed(_without_protobuf(obj))
        except ormsgpack.MsgpackEncodeError as error:
            # Read the type's name from the end of the error's text, such as "Type is not msgpack serializable:
            # function".
            raise UnserializableState(" in ".join(self._types_around(obj, str(error).rpartition(": ")[2]))) from error

    def _types_around(self, value: Any, name: str) -> list[str]:
        """Return the type that cannot be serialized, then the types that contain it.

        `name` is the type in LangGraph's error. For a value within a model or dataclass, LangGraph's error may name the
        model's type, so the parts are tried one by one.
        """
        for part in _parts_of(value):
            try:
                super().dumps_typed(part)
            except ormsgpack.MsgpackEncodeError as error:
                around = self._types_around(part, str(error).rpartition(": ")[2])
                return around if isinstance(value, _COLLECTIONS) else [*around, type(value).__name__]
        return [name]


_COLLECTIONS = (dict, list, tuple, set, frozenset)


def _parts_of(value: Any) -> Iterable[Any]:
    """Return the values within a collection, model or dataclass."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, _COLLECTIONS):
        return value
    if isinstance(value, type):
        return ()
    if is_dataclass(value):
        return [getattr(value, each.name, None) for each in fields(value)]
    return vars(value).values() if hasattr(type(value), "model_fields") else ()


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
