"""ADK's events and state as bytes, and back, with everything that a resumed run reads. Pure."""

import json
import logging
from collections.abc import Mapping
from typing import Any, cast

from google.adk.events.event import Event
from pydantic_core import to_jsonable_python

from aion_core.errors import AgentFailed, StoreCorrupt

logger = logging.getLogger(__name__)


class Unserializable(AgentFailed):
    """The agent's events or state hold a value that cannot be serialized."""


def event_bytes(event: Event) -> bytes:
    """Return the event as bytes; raises Unserializable."""
    try:
        # By alias: a credential's scheme has a field `type_`, which is read back by its alias only. In Python's mode and
        # as ASCII: half a surrogate pair, at which a model may well cut, has no UTF-8.
        plain = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(plain, separators=(",", ":")).encode("ascii")
    except (ValueError, TypeError) as error:
        raise Unserializable(
            f"An event of {event.author!r} holds a value that cannot be kept in the session. Use plain data, or pydantic "
            "models, in its output, metadata and state."
        ) from error


def event_of(content: bytes) -> Event:
    """Return the event of the bytes; raises StoreCorrupt if they hold none."""
    try:
        return Event.model_validate(json.loads(content))
    except ValueError as error:
        raise StoreCorrupt("An event of the session cannot be read.") from error


def state_value(key: str, value: Any) -> Any:
    """Return the value as plain data; a value without such a form, such as a function, as its `repr`, as ADK's stores do.

    Raises Unserializable.
    """
    try:
        return to_jsonable_python(value)
    except ValueError:
        logger.warning("The state's %r holds a value with no JSON form: what is kept of it is its repr.", key)
    try:
        return to_jsonable_python(value, serialize_unknown=True)
    except ValueError as error:
        raise Unserializable(f"The state's {key!r} holds a value that cannot be kept. Use plain data.") from error


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the state as plain data; raises Unserializable."""
    return {key: state_value(key, value) for key, value in state.items()}


def value_bytes(value: Any) -> bytes:
    """Return plain data as bytes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def value_of(content: bytes) -> Any:
    """Return the plain data of the bytes; raises StoreCorrupt if they hold none."""
    try:
        return json.loads(content)
    except ValueError as error:
        raise StoreCorrupt("A part of the session's state cannot be read.") from error


def mapping_of(content: bytes) -> dict[str, Any]:
    """Return the state of the bytes; raises StoreCorrupt if they hold none."""
    return cast("dict[str, Any]", value_of(content))
