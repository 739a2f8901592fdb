"""Advice about unknown keys of aion.yaml: the level where a key belongs, or a similar key."""

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from aion_core.loading.suggestions import did_you_mean

NAMED = "<id>"
"""Path step for a key chosen by the author, such as an agent's id."""
LISTED = "[]"
"""Path step for an element of a list."""
Place = tuple[str, ...]


def misplaced(root: type[BaseModel], where: Sequence[str]) -> str:
    """Return advice about an unknown key, as the second half of its error message; "" without advice.

    `where` is the path of the key. If the key is valid at another level, the text names that level. Otherwise the text
    suggests a similar key of the same level.
    """
    key, level = where[-1], _level(root, where[:-1])
    if {f"{key}s", key.removesuffix("s")} & level:
        return f". {did_you_mean(key, sorted(level))}"
    places = sorted({place for place, name in _all_keys(root, ()) if name == key}, key=_depth)
    if places:
        return f" here. It belongs below {' or '.join(f'`{_display(place)}`' for place in places[:2])}."
    near = did_you_mean(key, sorted(level))
    return f". {near}" if near else ""


def _level(model: Any, path: Sequence[str]) -> set[str]:
    """Return the keys that are valid directly below a path in the model."""
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
    """Return the members of a union annotation, or the annotation itself. `Annotated` is removed first."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _unwrapped(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [each for inner in typing.get_args(annotation) for each in _unwrapped(inner)]
    return [annotation]


def _all_keys(annotation: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield each valid key below an annotation, as a pair of its level's path and its name."""
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            yield place, name
            for inner in _unwrapped(field.annotation):
                yield from _all_keys(inner, (*place, name))
        return
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if not arguments or not isinstance(origin, type):
        return
    step = NAMED if issubclass(origin, Mapping) else LISTED
    for inner in _unwrapped(arguments[-1]):
        yield from _all_keys(inner, (*place, step))


def _display(place: Place) -> str:
    return f"{'.'.join(place).replace(f'.{LISTED}', LISTED)}:" if place else "the top"


def _depth(place: Place) -> tuple[int, Place]:
    return len(place), place


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
