"""Input that is one value without named fields, such as the text of an `@entrypoint` with a `str`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from aion_core.agents.langgraph.input_example import example_of, json_schema
from aion_core.agents.langgraph.input_fields import JSON, TEXT, read_part
from aion_core.agents.langgraph.input_types import InputCheck, problem_of
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.types import Part

_VALUE = "value"
"""Key of an object around a value that is no object: data of A2A 0.3 is always an object."""


class InputValue(Struct, frozen=True):
    """One value as the whole input of a graph: a client's text, or the value of a data part."""

    check: InputCheck
    """Check of the value's type."""
    kinds: frozenset[str]
    """Kinds of parts that the type is for: "text", "data" or both."""

    @property
    def modes(self) -> tuple[str, ...]:
        """Media types of which a part can start the graph."""
        return tuple(mode for kind, mode in (("text", TEXT), ("data", JSON)) if kind in self.kinds)

    @property
    def reads(self) -> tuple[str, ...]:
        """Media types of the parts that may be the value, such as the text 7 for an `int`."""
        return TEXT, JSON

    def given(self, parts: Sequence[Part]) -> tuple[Any, list[str]]:
        """Return the value of message parts, and a description of each part that has no place in it."""
        read = [read_part(part) for part in parts if not is_payload(part)]
        data = [value for kind, value in read if kind == "data"]
        text = "".join(value for kind, value in read if kind == "text")
        unused = [value for kind, value in read if kind == "file"] + ["a second value" for _ in data[1:]]
        if not data:
            return text, unused
        if isinstance(data[0], Mapping) and data[0].keys() == {_VALUE} and self.problem(data[0], None):
            return data[0][_VALUE], unused
        return data[0], [*unused, *(["a text beside the data"] if text else [])]

    def problem(self, value: Any, before: Mapping[str, Any] | None) -> str:
        """Return why the graph cannot start with the value, or "". `before` has no meaning for a single value."""
        return problem_of(self.check, value)

    def accepted(self) -> str:
        """Return a description of the accepted messages, for the end of a sentence."""
        example = self.example()
        shown = f", such as {json.dumps(example, ensure_ascii=False)}" if example is not None else ""
        forms = {"text": "a text", "data": f"a data part with a value{shown}"}
        return " or ".join(form for kind, form in forms.items() if kind in self.kinds)

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the value; None if pydantic cannot express it."""
        return json_schema(self.check)

    def example(self) -> Any:
        """Return a value that starts the graph; None if none was found."""
        schema = self.schema()
        return example_of(self.check, schema) if schema else None


def kinds_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds of parts for a value of this JSON Schema: "text" for strings, "data" for other values."""
    if reference := schema.get("$ref"):
        defined = schema.get("$defs", {}).get(str(reference).rpartition("/")[2], {})
        return kinds_of({**defined, "$defs": schema.get("$defs", {})})
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if inner:
        return frozenset().union(*(kinds_of({**each, "$defs": schema.get("$defs", {})}) for each in inner))
    kind = schema.get("type")
    if kind == "string":
        return frozenset({"text"})
    return frozenset() if kind == "null" else frozenset({"data"}) if kind else frozenset({"text", "data"})
