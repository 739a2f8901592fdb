"""Serialization of ADK events and state. It keeps all data needed to resume a run. Pure."""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, cast

from google.adk.events.event import Event
from pydantic_core import to_jsonable_python

from aion_core.errors import AgentFailed, StoreCorrupt

logger = logging.getLogger(__name__)


class UnserializableSession(AgentFailed):
    """Error: an ADK event or a state value has no serialized form."""


def event_bytes(event: Event) -> bytes:
    """Serialize an ADK event as JSON. Raises UnserializableSession for a value without a JSON form."""
    try:
        # Write field aliases, because `event_of` can parse a credential scheme's field `type_` only by its alias. Write
        # ASCII with Python's json module: a model may split a surrogate pair, and half a pair has no UTF-8 form.
        plain = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(plain, separators=(",", ":")).encode("ascii")
    except (ValueError, TypeError) as error:
        place, type_name = _unserializable_tool(event), _UNKNOWN_TYPE.search(str(error))
        value = f"a value ({type_name[1].rpartition('.')[2]})" if type_name else "a value"
        if place:
            text = f"{place} has {value} that cannot be stored in the session. Return plain data or pydantic models."
        else:
            text = (
                f"An event of {event.author!r} has {value} that cannot be stored in the session. Use plain data or "
                "pydantic models in its output, metadata and state."
            )
        raise UnserializableSession(text) from error


_UNKNOWN_TYPE = re.compile(r"unknown type: <class '([^']+)'>")
"""The type in pydantic's error for a value without a JSON form."""


def _unserializable_tool(event: Event) -> str:
    """Return "The result of the tool 'name'" for the first result without a JSON form; "" if there is none."""
    for response in event.get_function_responses():
        try:
            response.model_dump(mode="json")
        except ValueError:
            return f"The result of the tool {response.name!r}"
    return ""


def event_of(content: bytes) -> Event:
    """Parse an ADK event from its stored JSON. Raises StoreCorrupt if the JSON is invalid."""
    try:
        return Event.model_validate(json.loads(content))
    except ValueError as error:
        raise StoreCorrupt("An event of the session cannot be read.") from error


def state_value(key: str, value: Any) -> Any:
    """Convert a state value to plain data. Replace a value without a JSON form by its `repr`, as ADK's stores do.

    Raises UnserializableSession if the `repr` cannot be stored either.
    """
    try:
        return to_jsonable_python(value)
    except ValueError:
        logger.warning("The state's %r has a value without a JSON form: its repr is stored.", key)
    try:
        return to_jsonable_python(value, serialize_unknown=True)
    except ValueError as error:
        raise UnserializableSession(
            f"The state's {key!r} has a value that cannot be stored. Use plain data."
        ) from error


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the state as plain data. Raises UnserializableSession if a value cannot be converted."""
    return {key: state_value(key, value) for key, value in state.items()}


def value_bytes(value: Any) -> bytes:
    """Serialize plain data as JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def value_of(content: bytes) -> Any:
    """Parse plain data from its stored JSON. Raises StoreCorrupt if the JSON is invalid."""
    try:
        return json.loads(content)
    except ValueError as error:
        raise StoreCorrupt("A part of the session's state cannot be read.") from error


def mapping_of(content: bytes) -> dict[str, Any]:
    """Parse a session's state from its stored JSON. Raises StoreCorrupt if the JSON is invalid."""
    return cast("dict[str, Any]", value_of(content))
