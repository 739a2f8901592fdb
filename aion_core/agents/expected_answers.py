"""Form of the answer to a question: the JSON Schema and the choices that its author gives. Pure.

This is the only place that reads them from a question. Clients find them in `metadata.interrupts` of the question, where
`aion_core.protocol.interrupts.questions_of` reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from a2a.utils.errors import A2AError
from msgspec import Struct
from pydantic import TypeAdapter

from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.json_schema import is_json_schema, misfit, shown
from aion_core.agents.plain_json import plain_json
from aion_core.protocol.interrupts import ORDER, SCHEMA_KEYS, ordered_fields
from aion_core.protocol.strict_json import strict_json

_CHECKED_KEYS = SCHEMA_KEYS[:2]
"""Keys of a schema that the answer must fit. A schema under the plain key `schema` may describe something else."""

_YES, _NO = frozenset({"yes", "y", "true"}), frozenset({"no", "n", "false"})


class ExpectedAnswer(Struct, frozen=True):
    """Form of the answer to one question."""

    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer as data; None if it is not known."""
    choices: Sequence[Any] = ()
    """Answers from which the client may choose. Other answers may be accepted too."""
    is_checked: bool = False
    """True if an answer that does not fit the schema is refused before the agent gets it."""

    def fitted(self, answer: Any) -> Any:
        """Return the answer in the form that the schema wants. Raises InvalidResumeInput if a checked answer does not fit.

        A text may be the JSON of the answer, a word for true or false, or a choice in other letters. See `unwrapped`.
        """
        if self.schema is None:
            return answer
        fits = None
        for given in _readings(answer, self.schema):
            found = misfit(given, self.schema)
            if found is None:
                return given
            if fits is None or isinstance(given, Mapping | list):
                answer, fits = given, found
        if self.is_checked and fits is not None:
            raise InvalidResumeInput(f"The answer does not fit the question{fits.text()}. Send {_wanted(self.schema)}.")
        return answer


def expected_answer(value: Any, schema: Any = None, *, is_checked: bool = False) -> ExpectedAnswer:
    """Return the form of the answer to a question with this value.

    `schema` is a class or a JSON Schema that the framework has for the answer, and `is_checked` is True if it must be
    checked here. Without `schema`, it is read from the value, as `options` are.
    """
    value = value if isinstance(value, Mapping) else {}
    found = TypeAdapter(schema).json_schema() if isinstance(schema, type) else schema
    if not found:
        name = next((key for key in SCHEMA_KEYS if is_json_schema(value.get(key))), "")
        found, is_checked = value.get(name), name in _CHECKED_KEYS
    plain = ordered(plain_json(found)) if isinstance(found, Mapping) and found else None
    options = value.get("options")
    choices = options if isinstance(options, list | tuple) else (plain or {}).get("enum")
    return ExpectedAnswer(plain, plain_json(list(choices)) if isinstance(choices, list | tuple) else (), is_checked)


def is_generated(schema: Any) -> bool:
    """Return True if pydantic has made the JSON Schema from a class, whose own checks may accept more than the schema."""
    if not isinstance(schema, Mapping) or "title" not in schema or not isinstance(schema.get("properties"), Mapping):
        return False
    return all(
        isinstance(each, Mapping) and {"title", "$ref", "allOf"} & each.keys() for each in schema["properties"].values()
    )


def ordered(schema: Any) -> Any:
    """Return the JSON Schema with the names of each object's properties in their order, which protobuf does not keep."""
    if isinstance(schema, list):
        return [ordered(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _ordered_item(key, item) for key, item in schema.items()}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) <= 1 or ORDER in schema:
        return inner
    return {**inner, ORDER: list(properties)}


def _ordered_item(keyword: str, item: Any) -> Any:
    if keyword in ("properties", "$defs", "definitions") and isinstance(item, Mapping):
        return {name: ordered(each) for name, each in item.items()}
    return ordered(item) if keyword in _SCHEMAS else item


_SCHEMAS = frozenset({"items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"})
"""Keywords whose value is a schema or a list of schemas."""


def _readings(answer: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values that the client may have meant by its answer, the answer itself first."""
    yield answer
    if (inner := unwrapped(answer)) is not answer:
        yield inner
    if not isinstance(answer, str):
        return
    if (parsed := parsed_json(answer)) is not None:
        yield parsed
    word = answer.strip().rstrip(".!").casefold()
    if word in _YES | _NO:
        yield word in _YES
    choices = schema.get("enum")
    yield from (each for each in choices if str(each).casefold() == word) if isinstance(choices, list) else ()


def unwrapped(answer: Any) -> Any:
    """Return the value in `{"value": …}`, the form of a list in A2A 0.3, whose data must be an object."""
    return answer["value"] if isinstance(answer, Mapping) and answer.keys() == {"value"} else answer


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text; None for another text, and for JSON with a repeated key or that is too large."""
    try:
        return strict_json(text.encode("utf-8", "surrogatepass"), "answer")
    except A2AError:
        return None


def _wanted(schema: Mapping[str, Any]) -> str:
    if names := ordered_fields(schema):
        return f"data, or JSON text, with an object of these keys: {', '.join(names)}"
    if isinstance(schema.get("enum"), list):
        return f"one of {', '.join(map(shown, schema['enum']))}"
    return "it as data, or as JSON text"
