"""Input with named fields, which the parts of a client's message fill."""

import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Any

from a2a.utils.errors import A2AError
from msgspec import Struct

from aion_core.agents.langgraph.input_example import example_of, json_schema
from aion_core.agents.langgraph.input_types import InputCheck, problem_of
from aion_core.agents.langgraph.parts import decoded_text
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.media_types import type_of
from aion_core.protocol.message_json import to_json
from aion_core.protocol.strict_json import strict_json
from aion_core.protocol.types import Part

MAX_FILE_VALUES = 100_000
"""Maximum number of values in a JSON file that fills the input. The turn stores the state several times."""

JSON, TEXT = "application/json", "text/plain"


class InputFields(Struct, frozen=True):
    """Fields of a graph's input that a client's message can fill."""

    names: Sequence[str]
    """All fields, filled by an object in a data part."""
    text: str | None
    """Field filled by a text, or None without a field for texts."""
    is_first: bool = False
    """True if other fields could be filled by the text, too."""
    required: frozenset[str] = frozenset()
    """Fields without which the graph cannot start."""
    check: InputCheck | None = None
    """Check of the fields' types; None if pydantic cannot check them."""
    has_messages: bool = False
    """True if the input has LangChain messages too, which contain the texts, the files and the other data."""

    @property
    def starts_by_text(self) -> bool:
        """True if a text alone can start the graph."""
        return self.text is not None and self.required <= {self.text}

    @property
    def modes(self) -> tuple[str, ...]:
        """Media types of which a part alone can start the graph; empty for all."""
        return () if self.has_messages else (TEXT, JSON) if self.starts_by_text else (JSON,)

    @property
    def reads(self) -> tuple[str, ...]:
        """Media types of the parts that fill a field; empty for all."""
        return () if self.has_messages else (TEXT, JSON) if self.text is not None else (JSON,)

    def given(self, parts: Sequence[Part]) -> tuple[dict[str, Any], list[str]]:
        """Return the fields' values from message parts, and a description of each part that fits no field."""
        if self.has_messages:
            filling = (to_json(part.data) for part in parts if self.is_filled_by(part))
            return {key: item for values in filling for key, item in values.items()}, []
        values: dict[str, Any] = {}
        unused: list[str] = []
        texts: list[str] = []
        for part in parts:
            if is_payload(part):
                continue
            kind, value = read_part(part)
            if kind == "text":
                texts.append(value)
            elif kind == "data" and isinstance(value, Mapping):
                values |= {key: item for key, item in value.items() if key in self.names}
                unused += [f"the key {key}" for key in value if key not in self.names]
            else:
                unused.append("data that is not an object" if kind == "data" else value)
        if text := "".join(texts):
            if self.text is None or self.text in values:
                unused.append("a text")
            else:
                values[self.text] = text
        return {name: values[name] for name in self.names if name in values}, unused

    def is_filled_by(self, part: Part) -> bool:
        """Return True if a data part of a message to an input with messages fills only fields beside the messages."""
        value = to_json(part.data) if part.WhichOneof("content") == "data" and not is_payload(part) else None
        return isinstance(value, Mapping) and bool(value) and value.keys() <= set(self.names)

    def problem(self, values: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
        """Return why the graph cannot start with these values, or "".

        `before` has the values of the state before the turn, or None if they are not known here.
        """
        known = {key: value for key, value in (before or {}).items() if key in self.names}
        if before is not None and (missing := sorted(self.required - values.keys() - known.keys(), key=self._place)):
            return f"{missing[0]} is missing"
        if not values or self.check is None:
            return ""
        # The values of the state are not the client's: a check of fields looks at them only as far as it needs them.
        return problem_of(self.check, {**known, **values}, in_part=True)

    def accepted(self) -> str:
        """Return a description of the accepted messages, for the end of a sentence."""
        keys = f"a data part with an object of these keys: {', '.join(self.names)}" if self.names else "no content"
        if self.has_messages:
            return f"{keys}, beside a text"
        example = self.example()
        shown = f", such as {json.dumps(example, ensure_ascii=False)}" if example else ""
        if not self.starts_by_text:
            return f"{keys}{shown}"
        return f"a text for {self.text}, or {keys}{shown}"

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of a data part; None if pydantic cannot express it."""
        return json_schema(self.check) if self.check is not None else None

    def example(self) -> Any:
        """Return an object for a data part that starts the graph; None if none was found.

        It has the required fields or, without one, the field that a text fills, or else the first with an example.
        """
        schema = self.schema()
        if self.check is None or not schema:
            return None
        shown = () if schema.get("required") else (self.text,) if self.text is not None else self.names
        objects = (example_of(self.check, {**schema, "required": [name]}) for name in shown)
        # An object without a value says nothing about the input.
        found = (each for each in objects if each and None not in each.values())
        return next(found, None) or example_of(self.check, schema)

    def _place(self, name: str) -> int:
        return list(self.names).index(name)


def read_part(part: Part) -> tuple[str, Any]:
    """Return a part's kind ("text", "data" or "file") and its value; for a file, its description in an error.

    Text files count as text, valid JSON files as data.
    """
    kind, media_type = part.WhichOneof("content"), type_of(part) or ""
    if kind == "raw" and media_type == JSON:
        try:
            return "data", strict_json(part.raw.removeprefix(codecs.BOM_UTF8), "file", most_values=MAX_FILE_VALUES)
        except A2AError as error:
            return "file", f"a file ({error})"
    if kind == "raw" and media_type.startswith("text/"):
        return "text", decoded_text(part)
    return {"text": ("text", part.text), "data": ("data", to_json(part.data))}.get(str(kind), ("file", "a file"))
