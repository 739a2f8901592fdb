"""Random JSON styles: order of keys, white space and escapes vary, the value is the same."""

import json
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


class Raw(str):
    """Literal JSON text, such as NaN or a number of 5000 digits."""


class Pairs(list[tuple[str, Any]]):
    """Object as a list of members, with possible duplicate names."""


def rendered(value: Any, chance: random.Random, *, shuffled: bool = True) -> bytes:
    """Return the value as JSON in a random style."""
    return "".join(_pieces(value, chance, shuffled)).encode()


def _pieces(value: Any, chance: random.Random, shuffled: bool) -> Iterator[str]:
    yield _space(chance)
    match value:
        case Raw():
            yield value
        case dict() | Pairs():
            members = list(value.items()) if isinstance(value, dict) else list(value)
            if shuffled:
                chance.shuffle(members)
            yield "{"
            for position, (name, member) in enumerate(members):
                yield f"{',' if position else ''}{_space(chance)}{_text(name, chance)}{_space(chance)}:"
                yield from _pieces(member, chance, shuffled)
            yield "}"
        case list():
            yield "["
            for position, member in enumerate(value):
                yield "," if position else ""
                yield from _pieces(member, chance, shuffled)
            yield "]"
        case str():
            yield _text(value, chance)
        case _:
            yield json.dumps(value)
    yield _space(chance)


def _space(chance: random.Random) -> str:
    return "" if chance.random() < 0.8 else "".join(chance.choices(" \t\r\n", k=chance.randint(1, 4)))


def _text(text: str, chance: random.Random) -> str:
    style = chance.random()
    if style < 0.4:
        return json.dumps(text)
    if style < 0.7:
        # Escape a text with a lone surrogate, because UTF-8 cannot encode it.
        return json.dumps(text, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in text))
    units = text.encode("utf-16-be", "surrogatepass")
    escaped = (f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
    return f'"{"".join(escaped)}"'


def changed(value: Any, path: Path, change: Any) -> Any:
    """Return the value with `change` applied at the path."""
    if not path:
        return change(value)
    if isinstance(value, list):
        return [changed(member, path[1:], change) if at == path[0] else member for at, member in enumerate(value)]
    return {name: changed(member, path[1:], change) if name == path[0] else member for name, member in value.items()}


def objects(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of objects in the value."""
    if isinstance(value, dict):
        yield path
        for name, member in value.items():
            yield from objects(member, (*path, name))
    if isinstance(value, list):
        for at, member in enumerate(value):
            yield from objects(member, (*path, at))


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of scalars in the value."""
    if isinstance(value, dict | list):
        for at, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(member, (*path, at))
    else:
        yield path
