"""Search for texts that the process still references, starting from the state of modules, by the garbage collector."""

import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

PROGRAM = (
    "aion_core",
    "handlers",
    "a2a",
    "starlette",
    "fastapi",
    "mangum",
    "langgraph",
    "langchain_core",
    "jwt",
    "httpx",
)
"""Packages that serve a request; the search begins at their modules."""

_NOT_OURS = (
    *("moto", "botocore", "boto3", "werkzeug", "responses"),
    *("pytest", "_pytest", "tests", "pluggy", "hypothesis", "schemathesis", "playwright", "openai"),
)
"""Packages that the search excludes: the emulator (a database in this process), its clients, and tests."""


def roots(packages: Iterable[str] = PROGRAM) -> list[Any]:
    """Return the imported modules of the packages."""
    names = tuple(packages)
    return [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names]


def texts_with(marks: Iterable[str], *more: Any) -> Iterator[tuple[str, str]]:
    """Yield each mark that a reachable text contains, with that text; `more` are further roots of the search."""
    wanted = [(mark, mark.encode()) for mark in marks]
    todo: list[Any] = [*roots(), *more]
    seen: set[int] = set()
    kept: list[Any] = []  # keep each object, because the id of a deleted object may be reused
    foreign: dict[type, bool] = {}
    while todo:
        one = todo.pop()
        of = type(one)
        if id(one) in seen:
            continue
        # Decide once for each type, except where the object itself matters.
        if (skip := foreign.get(of)) is None:
            skip = _is_foreign(one)
            if not issubclass(of, _BY_OBJECT):
                foreign[of] = skip
        if skip:
            continue
        seen.add(id(one))
        kept.append(one)
        if isinstance(one, str | bytes | bytearray):
            for mark, encoded in wanted:
                if mark in one if isinstance(one, str) else encoded in one:
                    yield mark, str(one)[:300]
            continue
        # Search a protobuf message in its serialized form: the garbage collector does not see its texts.
        if hasattr(type(one), "DESCRIPTOR") and hasattr(one, "SerializeToString"):
            todo.append(one.SerializeToString())
        todo.extend(gc.get_referents(one))


_BY_OBJECT = (
    types.ModuleType,
    types.FrameType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FunctionType,
    type,
)


def _is_foreign(one: Any) -> bool:
    if isinstance(one, types.CodeType):
        return True
    if isinstance(one, types.ModuleType):
        return one.__name__.partition(".")[0] in _NOT_OURS
    # Ignore the frames of the test's own functions, because they hold the secrets that the test sends.
    frame: types.FrameType | None = None
    match one:
        case types.FrameType():
            frame = one
        case types.CoroutineType():
            frame = one.cr_frame
        case types.AsyncGeneratorType():
            frame = one.ag_frame
        case _:
            pass
    if frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_OURS:
        return True
    of = type(one).__module__ if not isinstance(one, type | types.FunctionType) else one.__module__
    return isinstance(of, str) and of.partition(".")[0] in _NOT_OURS
