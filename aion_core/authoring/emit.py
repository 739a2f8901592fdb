"""What a node says while it runs: files, data, messages and metadata, through LangGraph's StreamWriter (R64-R72).

Each call hands the writer one value of this module's; the server makes the A2A event of it, with its own ids.
"""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aion_core.authoring.json_forms import as_json, as_value, bytes_of
from aion_core.protocol.message_rules import is_reserved, without_reserved_keys
from aion_core.protocol.types import Artifact, Part

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk

Writer = Callable[[Any], None]
"""LangGraph's `StreamWriter`, by its shape: LangGraph need not be imported for it."""


@dataclass(frozen=True, slots=True)
class ArtifactEmitted:
    """A file, or data, or a further chunk of one.

    Where the author gave no `artifact_id` it is "": the artifact is then the task's one of that name.
    """

    artifact: Artifact
    append: bool
    last_chunk: bool
    node: str = field(default="", compare=False)
    """The run of the node that said it; see `running_node`."""


@dataclass(frozen=True, slots=True)
class MessageEmitted:
    """A message that is said before the turn's answer: an AIMessage is kept, an AIMessageChunk only streamed (R70)."""

    message: "AIMessage | AIMessageChunk"
    node: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class MetadataEmitted:
    """Keys to be merged into the task's metadata; none of them is the server's (R71)."""

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
    """Send a file to the client, as an artifact: either by its `url`, or its content in `base64`.

    A file in chunks is one call for each: the first with `append=False`, each but the last with `is_last_chunk=False`,
    all with the same `name`, or the same `artifact_id`.

    Raises ValueError where not exactly one of `url` and `base64` is given, or it is not what it should be.
    """
    if (url is None) == (base64 is None):
        raise ValueError("emit_file takes either url or base64: give exactly one of them.")
    if url == "":
        raise ValueError("emit_file's url is empty.")
    if not mime_type:
        raise ValueError('emit_file\'s mime_type is empty: give one, such as "application/octet-stream".')
    part = Part(media_type=mime_type, filename=name or "")
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
    """Send structured data to the client, as an artifact; chunks of it as with `emit_file`.

    A2A's numbers are doubles: an integer beyond 2**53 whose last digits matter is to be sent as text.

    Raises ValueError where the data cannot be written as JSON.
    """
    part = Part(data=as_value(data, "emit_data's data"))
    _emit_artifact(writer, part, name or "data", append, is_last_chunk, artifact_id)


def emit_message(writer: Writer, message: "AIMessage | AIMessageChunk") -> None:
    """Say something before the turn's answer: an AIMessage is kept in the history, an AIMessageChunk is only streamed.

    An AIMessage without text says nothing; one that says what a message of its id has said already is not said again.

    Raises TypeError for anything else.
    """
    # Whoever passes one has imported these; the other functions of this module do without.
    from langchain_core.messages import AIMessage, AIMessageChunk

    if not isinstance(message, AIMessage):
        raise TypeError(f"emit_message takes an AIMessage or an AIMessageChunk, not {type(message).__name__}.")
    if not message.text and not isinstance(message, AIMessageChunk):
        return
    hand(writer, MessageEmitted(message, running_node()))


def emit_task_metadata(writer: Writer, metadata: Mapping[str, Any]) -> None:
    """Merge these keys into the task's metadata; those that begin with `aion:` are the server's, and are left out.

    Raises TypeError for anything but a mapping, ValueError where it cannot be written as JSON.
    """
    if not isinstance(metadata, Mapping):
        raise TypeError(f"emit_task_metadata takes a dict, not {type(metadata).__name__}.")
    whole = as_json(dict(metadata), "emit_task_metadata's metadata")
    as_value(whole, "emit_task_metadata's metadata")
    if own := without_reserved_keys(whole):
        hand(writer, MetadataEmitted(own, running_node()))


handed: ContextVar[Callable[[object], None] | None] = ContextVar("aion_handed", default=None)
"""Is told of each emission before the writer has it, where a server wants to know what is still under way."""


def hand(writer: Writer, emission: object) -> None:
    """Give the emission to the writer, and let the server know that it is under way."""
    tell = handed.get()
    if tell is not None:
        tell(emission)
    writer(emission)


def running_node() -> str:
    """Return what names the run of the LangGraph node that is running, and its attempt; "" outside of one.

    A node that runs again, after a crash, has the same name: what it says again is known by it.
    """
    # Where no graph runs LangGraph need not be there, and these functions stay light to import.
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
    artifact = Artifact(artifact_id=artifact_id or "", name=name, parts=[part])
    hand(writer, ArtifactEmitted(artifact, append, last, running_node()))
