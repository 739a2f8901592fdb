"""Questions in messages: which a message asks, in which form, and which it answers. Pure.

The message of an interrupted turn has the id of its first question in `metadata.interruptId`. `metadata.interrupts`
lists the questions if there are several, or if a form of the answer is known. Each has an `id`, a `text`, and perhaps a
`schema` (JSON Schema of the answer as data, with the author's order of an object's properties in `propertyOrdering`) and
`choices` (answers to choose from).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from aion_core.errors import InputNotRequired
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Part

INTERRUPT_ID = "interruptId"
"""Key in the metadata of a message or part. Its value is the id of the interrupt that it asks or answers."""

INTERRUPTS = "interrupts"
"""Key in the metadata of a question message. Its value lists the questions."""

ORDER = "propertyOrdering"
"""Key in an object's schema, as in the schemas of Gemini. Its value is the names of the properties in the author's order.

The keys of a protobuf Struct have no order.
"""

SCHEMA_KEYS = ("response_schema", "responseSchema", "schema")
"""Keys under which frameworks and authors put the JSON Schema of an answer into the data of a question."""


class OpenQuestion(Struct, frozen=True):
    """Question of an interrupted task, as a client reads it."""

    id: str
    """Id of the interrupt. The answer names it as `interruptId` if the task has several."""
    text: str = ""
    """Text of the question; "" if the message has only this question."""
    schema: Mapping[str, Any] = {}
    """JSON Schema of an answer as data; empty if none is known."""
    choices: Sequence[Any] = ()
    """Answers to choose from: texts, or other JSON values for an answer as data."""

    def document(self) -> dict[str, Any]:
        """Return the question as in `metadata.interrupts`, without the values that are not known."""
        known = {"text": self.text, "schema": dict(self.schema), "choices": list(self.choices)}
        return {"id": self.id, **{key: value for key, value in known.items() if value}}

    def fields(self) -> list[str]:
        """Return the names of an answer's fields in the author's order; empty if the answer need not be an object."""
        return ordered_fields(self.schema)

    def required(self) -> list[str]:
        """Return the names of the fields that the answer must have."""
        names = resolved(self.schema).get("required")
        return [name for name in self.fields() if name in names] if isinstance(names, list) else []


def ordered_fields(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the properties of an object's schema in the author's order, the required ones first if unknown.

    Return an empty list if the schema does not describe an object with properties.
    """
    found = resolved(schema)
    properties = found.get("properties")
    if not isinstance(properties, Mapping):
        return []
    order, required = found.get(ORDER), found.get("required")
    named = [*(order if isinstance(order, list) else []), *(required if isinstance(required, list) else [])]
    first = [name for name in dict.fromkeys(map(str, named)) if name in properties]
    return [*first, *(name for name in properties if name not in first)]


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, or the definition to which its `$ref` points: pydantic has one at the top of a recursive class."""
    reference = schema.get("$ref")
    definitions = schema.get("$defs")
    if isinstance(reference, str) and isinstance(definitions, Mapping):
        found = definitions.get(reference.removeprefix("#/$defs/"))
        return found if isinstance(found, Mapping) else schema
    return schema


def questions_of(message: Message) -> list[OpenQuestion]:
    """Return the questions in the message of an interrupted task, in their order; empty if they have no ids."""
    metadata = to_json(message.metadata)
    listed = metadata.get(INTERRUPTS)
    found = [_question(each) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    questions = [each for each in found if each.id]
    name = interrupt_id_of(message)
    return questions or ([OpenQuestion(name)] if name else [])


def _question(listed: Mapping[str, Any]) -> OpenQuestion:
    schema, choices = listed.get("schema"), listed.get("choices")
    return OpenQuestion(
        str(listed.get("id") or ""),
        str(listed.get("text") or ""),
        schema if isinstance(schema, Mapping) else {},
        choices if isinstance(choices, list) else (),
    )


def without_schema(data: Any) -> Any:
    """Return the data of a question without the schema of its answer, which people read as a form."""
    if not isinstance(data, Mapping):
        return data
    return {key: value for key, value in data.items() if key not in SCHEMA_KEYS or not isinstance(value, Mapping)}


def interrupt_id_of(named: Message | Part) -> str:
    """Return the interrupt id from the metadata of a message or part; "" if it is missing or null."""
    name = named.metadata[INTERRUPT_ID] if INTERRUPT_ID in named.metadata.fields else None
    return "" if name is None else str(name)


def names_interrupt(message: Message) -> bool:
    """Return True if the message or one of its parts has an interrupt id: it answers a question."""
    return bool(interrupt_id_of(message)) or any(map(interrupt_id_of, message.parts))


def input_not_required() -> InputNotRequired:
    """Return the error for a message that names an interrupt, although none waits for an answer."""
    return InputNotRequired(
        f"No question is waiting for an answer; it may have been answered already. GetTask returns the task's state. Send "
        f"the message without metadata.{INTERRUPT_ID} if it answers no question."
    )
