"""Copy of a loaded checkpoint for a second reader, in place of loading it again."""

from types import NoneType
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

_SHARED = frozenset({str, int, float, bool, bytes, NoneType})


def copy_of(loaded: CheckpointTuple) -> CheckpointTuple | None:
    """Return a copy of a checkpoint. Return None if it has pending writes, or objects that are neither plain nor messages.

    Pending writes are excluded because LangGraph applies them to the checkpoint that it has read. The copies share their
    messages, because these take nearly all of the time: a node that changes a message returns it, and then the state has
    it as written.
    """
    if loaded.pending_writes:
        return None
    try:
        return CheckpointTuple(*[_copied(part) for part in loaded])
    except _NotPlain:
        return None


class _NotPlain(Exception):
    """Signal: the value cannot be copied."""


def _copied(value: Any) -> Any:
    kind = type(value)
    if _is_shared(kind):
        return value
    if kind is dict:
        return {name: _copied(member) for name, member in value.items()}
    if kind is list:
        return value.copy() if all(map(_is_shared, {*map(type, value)})) else [_copied(member) for member in value]
    raise _NotPlain


def _is_shared(kind: type) -> bool:
    return kind in _SHARED or issubclass(kind, BaseMessage)
