"""Keys of aion.yaml by their level: which keys stand where, and where a misplaced one belongs."""

import difflib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

NAMED = "<id>"
"""A step of a place that the author names, such as an agent's id."""
LISTED = "[]"
"""A step of a place that is an element of a list."""
Place = tuple[str, ...]


def misplaced(root: type[BaseModel], where: Sequence[str]) -> str:
    """Return the rest of a sentence that says that a key, the last of `where`, is not known; "" without advice.

    Suggestions come from the keys of that level; a key of another level is said to belong there.
    """
    key, level = where[-1], _level(root, where[:-1])
    places = sorted({place for place, name in _keys(root, ()) if name == key}, key=_depth)
    if places:
        return f" here. It belongs below {' or '.join(f'`{_shown(place)}`' for place in places[:2])}."
    near = difflib.get_close_matches(key, sorted(level), n=1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _level(model: Any, path: Sequence[str]) -> set[str]:
    """Return the keys that are valid below this path."""
    models = [model]
    for step in path:
        models = [inner for each in models for inner in _below(each, step)]
    return {field for each in models if _is_model(each) for field in each.model_fields}


def _below(annotation: Any, step: str) -> list[Any]:
    if _is_model(annotation):
        field = annotation.model_fields.get(step)
        return _unwrapped(field.annotation) if field is not None else []
    inner = typing.get_args(annotation)
    return _unwrapped(inner[-1]) if inner else []


def _unwrapped(annotation: Any) -> list[Any]:
    """Return the models and collections that an annotation allows."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _unwrapped(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [each for inner in typing.get_args(annotation) for each in _unwrapped(inner)]
    return [annotation]


def _keys(annotation: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield each key that there is, with the place that it stands below."""
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            yield place, name
            for inner in _unwrapped(field.annotation):
                yield from _keys(inner, (*place, name))
        return
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if not arguments or not isinstance(origin, type):
        return
    step = NAMED if issubclass(origin, Mapping) else LISTED
    for inner in _unwrapped(arguments[-1]):
        yield from _keys(inner, (*place, step))


def _shown(place: Place) -> str:
    return f"{'.'.join(place).replace(f'.{LISTED}', LISTED)}:" if place else "the top"


def _depth(place: Place) -> tuple[int, Place]:
    return len(place), place


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
