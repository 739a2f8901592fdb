"""Check of a JSON value by a JSON Schema: the keywords that describe the form of a client's answer. Pure.

LangGraph does not check answers by a JSON Schema, and a Lambda package has no library for it. Other keywords, such as
`pattern` and `format`, are for forms only.
"""

import json
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

MAX_STEPS, MAX_DEPTH = 20_000, 100
"""Maximum numbers of schemas, and of nested schemas, in a check. The rest of the value counts as fitting."""

_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


class Misfit(Struct, frozen=True):
    """Part of a value that violates its schema."""

    place: tuple[str, ...]
    """Keys and positions from the outermost value to the violating one."""
    reason: str
    """What the schema wants, as a sentence without its full stop."""

    def text(self) -> str:
        """Return the place and the reason, to be appended to a sentence for the client."""
        where = ".".join(self.place)
        return f"{f', in {where}' if where else ''}: {self.reason}"


def is_json_schema(value: Any) -> bool:
    """Return True if the value looks like a JSON Schema, and not like other data under the name `schema`."""
    if not isinstance(value, Mapping):
        return False
    types = value.get("type")
    named = types if isinstance(types, list) else [types]
    return any(each in _TYPES for each in named if isinstance(each, str)) or any(
        isinstance(value.get(key), kind)
        for key, kind in {
            "properties": Mapping,
            "enum": list,
            "anyOf": list,
            "oneOf": list,
            "allOf": list,
            "$ref": str,
        }.items()
    )


def misfit(value: Any, schema: Any) -> Misfit | None:
    """Return the first part of the value that violates the schema; None if the value fits."""
    return _Check(schema).misfit(value, schema, ())


class _Check:
    """Check of one value. It is limited, because a schema may refer to itself."""

    def __init__(self, root: Any) -> None:
        self._root, self._steps = root, 0

    def misfit(self, value: Any, schema: Any, place: tuple[str, ...], depth: int = 0) -> Misfit | None:
        if schema is False:
            return Misfit(place, "This value is not allowed")
        self._steps += 1
        if not isinstance(schema, Mapping) or self._steps > MAX_STEPS or depth > MAX_DEPTH:
            return None
        if (reason := _reason(value, schema)) is not None:
            return Misfit(place, reason)
        for inner, part, key in self._inner(value, schema):
            if (found := self.misfit(part, inner, (*place, *key), depth + 1)) is not None:
                return found
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            each_option = options if isinstance(options, list) else []
            misfits = [self.misfit(value, option, place, depth + 1) for option in each_option]
            if misfits and None not in misfits:
                # Explain the option that the value fits best: the one whose misfit is the deepest.
                return max((each for each in misfits if each is not None), key=lambda each: len(each.place))
        return None

    def _inner(self, value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
        """Yield the schemas that parts of the value must fit, each with its part and the part's key."""
        if isinstance(schema.get("$ref"), str):
            yield _referenced(schema["$ref"], self._root), value, ()
        for each in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
            yield each, value, ()
        if isinstance(value, Mapping):
            properties = schema["properties"] if isinstance(schema.get("properties"), Mapping) else {}
            others = schema.get("additionalProperties", True)
            for key, item in value.items():
                yield properties.get(key, others), item, (str(key),)
        if isinstance(value, list):
            for number, item in enumerate(value):
                yield schema.get("items", True), item, (str(number),)


def _referenced(reference: str, root: Any) -> Any:
    found = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if reference.startswith("#") else None


def _reason(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what the schema's own keywords want instead of the value, without its parts; None if they are content."""
    types = schema.get("type")
    wanted = [each for each in (types if isinstance(types, list) else [types]) if each in _TYPES]
    if wanted and not any(_is_of(value, each) for each in wanted):
        return f"It must be {' or '.join(_TYPES[each] for each in wanted)}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(allowed, list) and not any(_equal(value, each) for each in allowed):
        return f"It must be one of {', '.join(map(shown, allowed))}"
    if isinstance(value, Mapping):
        required = schema.get("required")
        missing = [str(each) for each in required if each not in value] if isinstance(required, list) else []
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else None
    return _out_of_bounds(value, schema)


_BOUNDS = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "more than", operator.gt),
    ("exclusiveMaximum", "less than", operator.lt),
)
_SIZES = {str: ("minLength", "maxLength", "characters"), list: ("minItems", "maxItems", "items")}


def _out_of_bounds(value: Any, schema: Mapping[str, Any]) -> str | None:
    if _is_of(value, "number"):
        for key, words, holds in _BOUNDS:
            if _is_of(schema.get(key), "number") and not holds(value, schema[key]):
                return f"It must be {words} {schema[key]}"
    for kind, (least, most, unit) in _SIZES.items():
        if isinstance(value, kind):
            if _is_of(schema.get(least), "number") and len(value) < schema[least]:
                return f"It must have at least {schema[least]} {unit}"
            if _is_of(schema.get(most), "number") and len(value) > schema[most]:
                return f"It must have at most {schema[most]} {unit}"
    return None


def _is_of(value: Any, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
        case _:
            return value is None


def shown(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _equal(one: Any, other: Any) -> bool:
    """Return True for equal JSON values. In Python, True equals 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
