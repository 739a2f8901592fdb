"""Types of a graph's input as pydantic checks and JSON Schema. Pure."""

import dataclasses
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, cast

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails

InputCheck = TypeAdapter[Any]
"""Check of an input value, which also has the JSON Schema of this value."""

_CONFIG = ConfigDict(arbitrary_types_allowed=True)


def annotations_of(schema: Any) -> dict[str, Any]:
    """Return the annotations of a class or function by name; empty if Python cannot resolve a name in them."""
    try:
        return typing.get_type_hints(schema, include_extras=True)
    except (AttributeError, NameError, TypeError):
        return {}


def is_object(annotation: Any) -> bool:
    """Return True for a class whose instances have named fields: a TypedDict, a dataclass, a pydantic model."""
    return isinstance(annotation, type) and (
        typing_extensions.is_typeddict(annotation)
        or dataclasses.is_dataclass(annotation)
        or issubclass(annotation, BaseModel)
    )


def required_fields(schema: Any) -> Iterator[str]:
    """Yield the names of a class's fields without a default; for a TypedDict, of its required keys."""
    if dataclasses.is_dataclass(schema):
        unset = dataclasses.MISSING
        fields = (each for each in dataclasses.fields(schema) if each.init)
        yield from (each.name for each in fields if each.default is each.default_factory is unset)
    elif isinstance(schema, type) and issubclass(schema, BaseModel):
        yield from (name for name, each in schema.model_fields.items() if each.is_required())
    else:
        yield from getattr(schema, "__required_keys__", ())


def is_enforced(schema: Any) -> bool:
    """Return True if Python refuses an instance without a required field: not for a TypedDict."""
    return dataclasses.is_dataclass(schema) or (isinstance(schema, type) and issubclass(schema, BaseModel))


def is_optional(annotation: Any) -> bool:
    """Return True if the annotation allows None."""
    annotation = without_marks(annotation)
    return typing.get_origin(annotation) in UNIONS and type(None) in typing.get_args(annotation)


def without_none(annotation: Any) -> Any:
    """Return the annotation without marks and, if it is a union of None and one other type, that type."""
    annotation = without_marks(annotation)
    if not is_optional(annotation):
        return annotation
    others = [each for each in typing.get_args(annotation) if each is not type(None)]
    return without_marks(others[0]) if len(others) == 1 else annotation


def without_marks(annotation: Any) -> Any:
    """Return the annotation without Required, NotRequired, ReadOnly and Annotated."""
    while typing.get_origin(annotation) in (Annotated, *_MARKS):
        annotation = typing.get_args(annotation)[0]
    return annotation


_MARKS = (typing.Required, typing.NotRequired, typing_extensions.ReadOnly)
UNIONS = (Union, types.UnionType)


def check_of_type(annotation: Any) -> InputCheck | None:
    """Return the check for a value with this annotation; None if pydantic cannot check it."""
    try:
        portable = _portable(annotation)
        own = is_object(portable)  # pydantic takes the config of such a class from the class
        return TypeAdapter(portable) if own else TypeAdapter(portable, config=_CONFIG)
    except (PydanticUserError, AttributeError, NameError, RecursionError, TypeError):
        return None


def check_of_fields(fields: Mapping[str, Any], required: Collection[str]) -> InputCheck | None:
    """Return the check for an object with these annotated fields; None if pydantic cannot check them."""
    try:
        return TypeAdapter(_object_type("Input", fields, required))
    except (PydanticUserError, AttributeError, NameError, RecursionError, TypeError):
        return None


def problem_of(check: InputCheck, value: Any, *, in_part: bool = False) -> str:
    """Return why the value does not fit, or "". The text has no value of the client.

    With `in_part`, the value may lack fields of its own, because others supply them.
    """
    try:
        check.validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        problem = next((each for each in problems if not (in_part and _lacks_field(each))), None)
        if problem is None:
            return ""
        place = ".".join(map(str, problem["loc"]))
        return f"{place}: {problem['msg']}" if place else str(problem["msg"])
    except Exception as error:  # a validator of the author's class may raise any exception
        return f"{type(error).__name__}"
    return ""


def _lacks_field(problem: ErrorDetails) -> bool:
    return problem["type"] == "missing" and len(problem["loc"]) == 1


def _portable(annotation: Any) -> Any:
    """Return the annotation in a form that pydantic accepts.

    Before Python 3.12, pydantic refuses the TypedDict of `typing`, also within another type.
    """
    if typing_extensions.is_typeddict(annotation):
        fields = {name: without_required(each) for name, each in annotations_of(annotation).items()}
        return _object_type(annotation.__name__, fields, annotation.__required_keys__, annotation.__doc__)
    arguments, origin = typing.get_args(annotation), typing.get_origin(annotation)
    if not arguments or origin is Literal:
        return annotation
    if origin is Annotated:
        inner, *marks = arguments
        return Annotated[(_portable(inner), *marks)]
    inside = tuple(_portable(each) if not isinstance(each, list) else each for each in arguments)
    if inside == arguments:
        return annotation
    if origin in UNIONS:
        return Union[inside]  # noqa: UP007 - made at run time
    return origin[inside]


def without_required(annotation: Any) -> Any:
    """Return the annotation of a TypedDict's key without Required, NotRequired and ReadOnly."""
    while typing.get_origin(annotation) in _MARKS:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _object_type(name: str, fields: Mapping[str, Any], required: Collection[str], doc: str | None = None) -> Any:
    keys = {
        field: typing_extensions.Required[_portable(each)]
        if field in required
        else typing_extensions.NotRequired[_portable(each)]
        for field, each in fields.items()
    }
    made = cast("Any", typing_extensions.TypedDict(name, keys))  # type: ignore[operator]
    made.__doc__, made.__pydantic_config__ = doc, _CONFIG
    return made
