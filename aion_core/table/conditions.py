"""Conditions of a write on the stored item, and filters of a read."""

from msgspec import Struct

from aion_core.table.item import PARTITION


class Exists(Struct, frozen=True):
    """Condition: the attribute exists; without a name, the item exists."""

    name: str = PARTITION


class Absent(Struct, frozen=True):
    """Condition: the attribute does not exist; without a name, the item does not exist."""

    name: str = PARTITION


class Equals(Struct, frozen=True):
    """Condition: the attribute exists and has this value."""

    name: str
    value: str | int | bool | bytes


class AtMost(Struct, frozen=True):
    """Condition: the attribute exists and is this number or less."""

    name: str
    value: int


class MoreThan(Struct, frozen=True):
    """Condition: the attribute exists and is greater than this number."""

    name: str
    value: int


class OneOf(Struct, frozen=True):
    """Condition: the attribute exists and has one of these values."""

    name: str
    values: tuple[str, ...]


class ShorterThan(Struct, frozen=True):
    """Condition: the list or set has fewer members than this. An absent attribute counts as empty."""

    name: str
    length: int


class NotEmpty(Struct, frozen=True):
    """Condition: the list or set exists and has at least one member."""

    name: str


class Both(Struct, frozen=True):
    """Condition: all of these conditions hold."""

    conditions: tuple["Condition", ...]


class Either(Struct, frozen=True):
    """Condition: at least one of these conditions holds."""

    conditions: tuple["Condition", ...]


Condition = Exists | Absent | Equals | AtMost | MoreThan | OneOf | ShorterThan | NotEmpty | Both | Either
