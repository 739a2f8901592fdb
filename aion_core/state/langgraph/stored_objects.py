"""Objects of authors' classes in serialized state: the record of their classes, and how they are restored.

A deployment may move, rename or change a class while its objects are stored. LangGraph would restore such an object as a
dict, or without its required fields, and the graph would run on with it. So a writer records which of its listed classes
a value contains, with the shape of each, and a reader that cannot restore one of them refuses the value.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send
from pydantic import ValidationError

from aion_core.errors import AgentFailed
from aion_core.state.langgraph.author_classes import is_named_tuple, shape_of
from aion_core.state.langgraph.class_record import SEPARATORS, StoredClass, class_entry


class UnrestorableState(AgentFailed):
    """Error: the stored state has an object that this version of the agent's code cannot restore.

    The text names the object's class, and the note has the remedy. Neither contains a stored value.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(
            f"The stored state has {problem}. Begin a new conversation, without contextId: this one continues only after "
            "a deployment that can read its state.",
            remedy,
        )


class ListedClasses:
    """Classes whose objects are restored as objects, by the names in serialized state."""

    def __init__(self, kinds: Collection[type]) -> None:
        """List the classes, except those that LangGraph always restores.

        Two classes of the same name, as local ones may be, are left out: an object does not tell which one it has.
        """
        self._kinds, uses = frozenset(kinds), Counter(map(_name_of, kinds))
        self.named: Mapping[StoredClass, type] = {
            named: kind
            for kind in kinds
            if uses[named := _name_of(kind)] == 1 and named not in SAFE_MSGPACK_TYPES and not SEPARATORS & {*str(named)}
        }
        """The classes by name."""
        self._aliases: dict[StoredClass, type | None] = {}
        self.searched: list[tuple[bytes, re.Pattern[bytes], dict[bytes, StoredClass]]] = []
        """Serialized names of modules, each with a pattern for its classes, and with these by serialized name."""
        for module in sorted({named.module for named in self.named}):
            start = ormsgpack.packb(module)
            names = {
                start + ormsgpack.packb(named.name): named for named in sorted(self.named) if named.module == module
            }
            self.searched.append((start, re.compile(b"|".join(map(re.escape, names))), names))

    def record(self, content: bytes) -> str:
        """Return the names and shapes of the listed classes in msgpack `content`, each after a ";"; "" for none."""
        record = ""
        for module, pattern, names in self.searched:
            if module in content:
                for name in sorted(set(pattern.findall(content))):
                    record += class_entry(names[name], shape_of(self.named[names[name]]))
        return record

    def find(self, named: StoredClass) -> type | None:
        """Return the listed class with this name, or the one for which its old module has an alias; else None."""
        if named not in self.named and named not in self._aliases:
            alias = importable(named)
            self._aliases[named] = alias if alias in self._kinds else None
        return self.named.get(named) or self._aliases[named]

    def called(self, name: str) -> list[StoredClass]:
        """Return the listed classes with this name, in any module."""
        return sorted(named for named in self.named if named.name == name)


def _name_of(kind: type) -> StoredClass:
    return StoredClass(kind.__module__, kind.__name__)


def importable(named: StoredClass) -> type | None:
    """Return the class with this name, or None if its module cannot be imported or does not have it."""
    with suppress(Exception, SystemExit):  # the author's module may raise any exception
        found = getattr(import_module(named.module), named.name)
        return found if isinstance(found, type) else None
    return None


class ObjectReader:
    """Reader of one serialized value with a record of classes."""

    def __init__(
        self,
        recorded: dict[StoredClass, str],
        classes: ListedClasses,
        langgraph: Callable[[int, bytes], Any],
        allowed: Collection[Any],
        *,
        strict: bool,
    ) -> None:
        """Restore objects of other classes as LangGraph does, by its hook `langgraph` and its list `allowed`.

        If the reader is not `strict`, an object that it cannot restore becomes plain data.
        """
        self._recorded, self._classes, self._strict = recorded, classes, strict
        self._langgraph, self._allowed = langgraph, allowed
        self._refusal: UnrestorableState | None = None

    def read(self, content: bytes) -> Any:
        """Return the value. Raises UnrestorableState for an object that the listed classes cannot restore."""
        try:
            return self._unpacked(content)
        except ValueError:
            # msgpack replaces each exception of its hook by a ValueError.
            if self._refusal is not None:
                raise self._refusal from None
            raise

    def _unpacked(self, content: bytes) -> Any:
        return ormsgpack.unpackb(content, ext_hook=self._object, option=ormsgpack.OPT_NON_STR_KEYS)

    def _object(self, code: int, content: bytes) -> Any:
        if code == EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(self._unpacked(content))
        if code not in _CONSTRUCTED:
            return self._langgraph(code, content)
        module, name, held, *_ = self._unpacked(content)
        named = StoredClass(module, name)
        if named in self._recorded:
            return self._recorded_object(code, named, held)
        if named in SAFE_MSGPACK_TYPES or named in self._allowed:
            try:
                kind = self._classes.named.get(named) or getattr(import_module(module), name)
            except Exception:
                return held
            return _like_langgraph(code, kind, held)
        return held

    def _recorded_object(self, code: int, named: StoredClass, held: Any) -> Any:
        kind = self._classes.find(named)
        if kind is None:
            return self._refused(held, *_missing(named, self._classes))
        try:
            return _constructed(code, kind, held)
        except Exception as error:  # the author's class may raise any exception
            failure = error
        with suppress(Exception):
            return _validated(kind, held)
        if shape_of(kind) == self._recorded[named]:
            # The class has not changed: its writer may have made the object without validation.
            return _like_langgraph(code, kind, held)
        return self._refused(held, *_changed(named, kind, held, failure))

    def _refused(self, held: Any, problem: str, remedy: str) -> Any:
        if not self._strict:
            return held
        self._refusal = UnrestorableState(problem, remedy)
        raise self._refusal


_CONSTRUCTED = frozenset(
    (EXT_CONSTRUCTOR_SINGLE_ARG, EXT_CONSTRUCTOR_POS_ARGS, EXT_CONSTRUCTOR_KW_ARGS, EXT_PYDANTIC_V1, EXT_PYDANTIC_V2)
)
"""LangGraph's types of msgpack extensions with a class's module and name, and a value that may contain objects."""


def _constructed(code: int, kind: Any, held: Any) -> Any:
    if code == EXT_CONSTRUCTOR_SINGLE_ARG:
        return kind(held)
    if code != EXT_CONSTRUCTOR_POS_ARGS:
        return kind(**held)
    if kind is Send and len(held) > 2:  # its third argument has a name
        return Send(held[0], held[1], timeout=held[2])
    return kind(*held)


def _validated(kind: Any, held: Any) -> Any:
    """Return a pydantic model by the names of its fields, which may have aliases. A RootModel has a single value.

    Raises an exception if pydantic refuses the values, and for every other class.
    """
    if isinstance(held, dict):
        held = {name: value for name, value in held.items() if name not in kind.model_computed_fields}
    return kind.model_validate(held, by_alias=True, by_name=True)


def _like_langgraph(code: int, kind: Any, held: Any) -> Any:
    """Return the object as LangGraph restores it: if need be, a model without validation, or else plain data."""
    try:
        return _constructed(code, kind, held)
    except Exception:  # the author's class may raise any exception
        with suppress(Exception):
            if code == EXT_PYDANTIC_V2:
                return kind.model_construct(**held)
            if code == EXT_PYDANTIC_V1:
                return kind.construct(**held)
    return held


def _missing(named: StoredClass, classes: ListedClasses) -> tuple[str, str]:
    """Return the problem and the remedy for a class that the state of this version does not have."""
    problem = f"{named}, which the state of this version of the agent does not have (moved or renamed?)"
    return problem, remedy_for_missing(named, classes.called(named.name))


def remedy_for_missing(named: StoredClass, moved: Collection[StoredClass]) -> str:
    """Return what the author can do about a missing class. `moved` has the classes of its name in other modules."""
    if importable(named) is not None:
        return f"{named} exists, but the state no longer names it. Name it in an annotation of the state again."
    line = f"from {min(moved).module} import {named.name}" if moved else f"from … import … as {named.name}"
    return f"Keep an alias in the module {named.module} until no stored state has the class: `{line}`."


def _changed(named: StoredClass, kind: Any, held: Any, failure: Exception) -> tuple[str, str]:
    """Return the problem and the remedy for a class that does not accept the stored values."""
    names = ", ".join(sorted(_refused_fields(kind, held, failure)))
    return (
        f"an object of {named} that this version of the class does not accept (field or member renamed?)",
        f"Let {named} accept what earlier versions have stored{f' (see {names})' if names else ''}: give a new field a "
        "default, let a renamed one accept its old name too, as by pydantic's AliasChoices, and keep an enum's members.",
    )


def _refused_fields(kind: Any, held: Any, failure: Exception) -> set[str]:
    """Return the names of fields that do not fit: never a stored value, or a key of a dict."""
    if isinstance(failure, ValidationError):
        places = [each["loc"][:1] for each in failure.errors(include_input=False, include_context=False)]
        own = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})
        return {str(name) for place in places for name in place if name in own}
    if isinstance(held, dict) and (dataclasses.is_dataclass(kind) or is_named_tuple(kind)):
        own = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        return {*own} ^ {*map(str, held)}
    return set()


def of_channels(serialized: tuple[str, bytes], has_channel: Callable[[str], bool]) -> tuple[str, bytes]:
    """Return a serialized checkpoint, with its metadata, without the values of the channels that the graph lacks."""
    kind, content = serialized
    checkpoint, *rest = ormsgpack.unpackb(content, ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)
    values = checkpoint["channel_values"]
    checkpoint["channel_values"] = {channel: value for channel, value in values.items() if has_channel(channel)}
    return kind, ormsgpack.packb([checkpoint, *rest], option=ormsgpack.OPT_NON_STR_KEYS)
