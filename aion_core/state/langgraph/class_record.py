"""Record of the authors' classes in a serialized value, kept in the value's type: `msgpack;models:Order:1a2b3c4d`."""

from typing import NamedTuple

SEPARATORS = frozenset(";:")


class StoredClass(NamedTuple):
    """Name of a class in serialized state."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def class_entry(named: StoredClass, shape: str) -> str:
    """Return a class and its shape as a part of a type, after the types of values and other classes."""
    return f";{named.module}:{named.name}:{shape}"


def recorded_classes(kind: str) -> dict[StoredClass, str]:
    """Return the classes that the type of a serialized value records, each with its shape."""
    entries = (entry.split(":") for entry in kind.split(";")[1:])
    return {StoredClass(module, name): shape for module, name, shape in entries}
