"""Answers to questions whose JSON Schema has fields: one line for each field, checked before anything is sent."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aion_tools.terminal import clean

if TYPE_CHECKING:
    from aion_core.protocol.interrupts import OpenQuestion

MAX_DEPTH = 3
"""Depth of nested objects that get a line for each field. A deeper object is entered as JSON."""

YES_AND_NO = {"yes": True, "no": False}


@dataclass(frozen=True)
class Field:
    """Field of an answer. A field of a nested object has the names of both objects' fields as its path."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def choices(self) -> list[str]:
        """Choices that a line can name."""
        listed = self.schema.get("enum")
        if isinstance(listed, list):
            return [clean(each) for each in listed if isinstance(each, str)]
        return list(YES_AND_NO) if self.schema.get("type") == "boolean" else []

    @property
    def prompt(self) -> str:
        """Prompt for the field: its name, what it accepts, and whether an empty line leaves it out."""
        kind = self.schema.get("type")
        accepted = ", ".join(self.choices) or (kind if isinstance(kind, str) and kind != "string" else "")
        default = f"default {json.dumps(self.schema['default'])}" if "default" in self.schema else "optional"
        notes = ", ".join(filter(None, (accepted, "" if self.is_required else default)))
        return clean(f"{'.'.join(self.path)}{f' ({notes})' if notes else ''}> ").replace("\n", " ")

    def value_of(self, line: str) -> Any:
        """Return the value that the line stands for: itself, yes or no, or JSON, whichever the schema accepts.

        Raises click.ClickException if it accepts none of them.
        """
        problem = None
        for value in _candidates(line):
            if (problem := _problem(self.schema, value)) is None:
                return value
        raise click.ClickException(f"{'.'.join(self.path)}: {problem}.")


def fields_of(question: "OpenQuestion") -> list[Field]:
    """Return the fields of the question's answer in the author's order; empty if the answer has none."""
    definitions = {"$defs": question.schema["$defs"]} if "$defs" in question.schema else {}
    return list(_fields(question.schema, definitions, (), is_required=True))


def _fields(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], path: tuple[str, ...], *, is_required: bool
) -> Iterator[Field]:
    from aion_core.protocol.interrupts import OpenQuestion, resolved

    asked = OpenQuestion("", schema={**definitions, **schema})
    names, required, found = asked.fields() if len(path) < MAX_DEPTH else [], asked.required(), resolved(asked.schema)
    if not names and path:
        yield Field(path, {**found, **definitions}, is_required)
    for name in names:
        field = found["properties"][name]
        is_needed = is_required and name in required
        if isinstance(field, Mapping):
            yield from _fields(field, definitions, (*path, name), is_required=is_needed)
        else:
            yield Field((*path, name), {}, is_needed)


def _candidates(line: str) -> Iterator[Any]:
    yield line
    if line.lower() in YES_AND_NO:
        yield YES_AND_NO[line.lower()]
    with suppress(ValueError):
        yield json.loads(line)


def object_of(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return the object with these values at their paths."""
    answer: dict[str, Any] = {}
    for (*parents, name), value in values.items():
        place = answer
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return answer


def check_answer(question: "OpenQuestion", answer: Any) -> None:
    """Raise click.ClickException if the question's schema does not accept the answer."""
    if problem := _problem(question.schema, answer):
        raise click.ClickException(f"The answer isn't accepted: {problem}.")


def _problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return why the schema does not accept the value; None if it does, or cannot be used: then the agent decides."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import extend
    from referencing import Registry

    # The schema is foreign. A pattern could take forever, and a reference to another document is not fetched.
    validator = extend(Draft202012Validator, {"pattern": None, "patternProperties": None})
    try:
        error = best_match(validator(schema, registry=Registry()).iter_errors(value))
    except Exception:  # a schema that is not one raises any exception
        return None
    return error.message if error else None
