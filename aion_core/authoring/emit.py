"""Functions with which a LangGraph node emits files, data, messages and metadata through its StreamWriter.

Each call writes one value of this module's classes. The server converts it into an A2A event and sets the ids.
"""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aion_core.authoring.json_values import as_json, as_value, bytes_of
from aion_core.protocol.reserved_keys import is_reserved, without_reserved_keys
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Artifact, Part

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk

Writer = Callable[[Any], None]
"""Same function type as LangGraph's `StreamWriter`, defined here to avoid an import of LangGraph."""


@dataclass(frozen=True, slots=True)
class ArtifactEmitted:
    """File or data emitted by a node, or a further chunk of a file or data.

    Without an `artifact_id` from the author, the artifact's id is "", and its name identifies it in the task.
    """

    artifact: Artifact
    append: bool
    last_chunk: bool
    node: str = field(default="", compare=False)
    """Name of the run of the node that has emitted the artifact. See `running_node`."""


@dataclass(frozen=True, slots=True)
class MessageEmitted:
    """Intermediate message that a node has emitted. An AIMessage is stored, and an AIMessageChunk is only streamed."""

    message: "AIMessage | AIMessageChunk"
    node: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class MetadataEmitted:
    """Metadata that a node has emitted, to be merged into the task's metadata."""

    metadata: dict[str, Any]
    node: str = field(default="", compare=False)


def emit_file(
    writer: Writer,
    *,
    url: str | None = None,
    base64: str | None = None,
    mime_type: str,
    name: str | None = None,
    append: bool = False,
    is_last_chunk: bool = True,
    artifact_id: str | None = None,
) -> None:
    """Send a file to the client as an artifact, either by its `url` or by its content in `base64`.

    For a file in chunks, make one call for each chunk: the first with `append=False`, each but the last with
    `is_last_chunk=False`, all with the same `name` or `artifact_id`.

    Raises ValueError unless exactly one of `url` and `base64` is given and valid.
    """
    if (url is None) == (base64 is None):
        raise ValueError("emit_file takes either url or base64: give exactly one of them.")
    if url == "":
        raise ValueError("emit_file's url is empty.")
    if not mime_type:
        raise ValueError('emit_file\'s mime_type is empty: give one, such as "application/octet-stream".')
    part = Part(media_type=mime_type, filename=utf8(name or ""))
    if base64 is None:
        part.url = url or ""
    else:
        part.raw = bytes_of(base64, "emit_file's base64")
    _emit_artifact(writer, part, name or "file", append, is_last_chunk, artifact_id)


def emit_data(
    writer: Writer,
    data: Any,
    name: str | None = None,
    append: bool = False,
    is_last_chunk: bool = True,
    *,
    artifact_id: str | None = None,
) -> None:
    """Send structured data to the client as an artifact, in chunks as with `emit_file`.

    A2A's numbers are doubles, so an integer beyond 2**53 loses its last digits. Send it as text if they matter.

    Raises ValueError for data outside JSON.
    """
    part = Part(data=as_value(data, "emit_data's data"))
    _emit_artifact(writer, part, name or "data", append, is_last_chunk, artifact_id)


def emit_message(writer: Writer, message: "AIMessage | AIMessageChunk") -> None:
    """Send an intermediate message. An AIMessage is stored in the history, and an AIMessageChunk is only streamed.

    An AIMessage without text sends nothing. A message with the same id and content is sent only once.

    Raises TypeError for an object of another class.
    """
    # Import LangChain here, because the other functions of this module work without it.
    from langchain_core.messages import AIMessage, AIMessageChunk

    if not isinstance(message, AIMessage):
        raise TypeError(f"emit_message takes an AIMessage or an AIMessageChunk, not {type(message).__name__}.")
    if not message.text and not isinstance(message, AIMessageChunk):
        return
    write_emission(writer, MessageEmitted(message, running_node()))


def emit_task_metadata(writer: Writer, metadata: Mapping[str, Any]) -> None:
    """Merge metadata into the task's metadata. Keys with the prefix `aion:` are reserved for the server and ignored.

    Raises TypeError if `metadata` is not a mapping, and ValueError for values that JSON cannot express.
    """
    if not isinstance(metadata, Mapping):
        raise TypeError(f"emit_task_metadata takes a dict, not {type(metadata).__name__}.")
    whole = as_json(dict(metadata), "emit_task_metadata's metadata")
    as_value(whole, "emit_task_metadata's metadata")
    if own := without_reserved_keys(whole):
        write_emission(writer, MetadataEmitted(own, running_node()))


emission_listener: ContextVar[Callable[[object], None] | None] = ContextVar("aion_handed", default=None)
"""Function called with each emission before LangGraph's writer. The server uses it to wait until emissions are
recorded."""


def write_emission(writer: Writer, emission: object) -> None:
    """Report the emission to the turn's `emission_listener`, if any, and pass it to LangGraph's stream writer."""
    listener = emission_listener.get()
    if listener is not None:
        listener(emission)
    writer(emission)


def running_node() -> str:
    """Return a name for the current run of a LangGraph node, with the number of its attempt; "" outside of a node.

    If a node runs again after a crash, its run has the same name, so that the server recognises repeated emissions.
    """
    # Do not import LangGraph here, because it may be missing and its import is slow.
    langgraph = sys.modules.get("langgraph.runtime")
    if langgraph is None:
        return ""
    try:
        execution = langgraph.get_runtime().execution_info
    except (RuntimeError, KeyError):
        return ""
    return f"{execution.checkpoint_ns}#{execution.node_attempt}" if execution is not None else ""


def _emit_artifact(writer: Writer, part: Part, name: str, append: bool, last: bool, artifact_id: str | None) -> None:
    if is_reserved(artifact_id):
        raise ValueError(f"The artifact_id {artifact_id!r} begins with aion:, as only the server's own do: change it.")
    artifact = Artifact(artifact_id=artifact_id or "", name=utf8(name), parts=[part])
    write_emission(writer, ArtifactEmitted(artifact, append, last, running_node()))
