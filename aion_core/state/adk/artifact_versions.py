"""Stored form of the versions of ADK's artifacts: folder, description and content. Pure."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.table import keys
from aion_core.table.schema import ARTIFACTS, PERMANENT_FOLDER

LONGEST_NAME, MOST_METADATA = 800, 1800
"""Limits in bytes. S3 allows 1024 for an object's name with its folder, and 2 KB for its metadata."""


class ArtifactKey(NamedTuple):
    """Key of an artifact. Without a session_id the artifact belongs to the user, otherwise to the session."""

    app_name: str
    user_id: str
    session_id: str | None
    filename: str


class VersionInfo(Struct, frozen=True):
    """Description of one version of an artifact, stored as the blob's metadata."""

    created: float
    kind: str
    """`inline` or `text` for a part with content. `file` for a part with a reference, stored as JSON."""
    part: Mapping[str, Any]
    """JSON form of the part, without its content."""
    mime_type: str | None
    custom: Mapping[str, Any]


def artifact_folder(key: ArtifactKey) -> str:
    """Return the folder of the artifact's blobs. Raises InputValidationError for a file name that is too long."""
    name = quote(key.filename, safe="", errors="surrogatepass").replace(".", "%2E")
    if len(name) > LONGEST_NAME:
        raise InputValidationError("The artifact's file name is too long.")
    return f"{artifacts_folder(*key[:3])}{name}/"


def artifacts_folder(app_name: str, user_id: str, session_id: str | None) -> str:
    """Return the folder of all artifacts of the session or, without a session, of the user."""
    if session_id is None:
        own = keys.owner_folder(PERMANENT_FOLDER, user_id)
        return f"{own}/{ARTIFACTS}/{keys.user_state_partition(user_id, app_name).removeprefix('USER#')}/"
    return f"{keys.owner_folder(ARTIFACTS, user_id)}/{keys.session_thread(user_id, app_name, session_id)}/"


def artifact_key(app_name: str, user_id: str, filename: str, session_id: str | None) -> ArtifactKey:
    """Return the key of an artifact. Raises InputValidationError if the file name or the session is missing."""
    if not filename:
        raise InputValidationError("An artifact needs a file name.")
    if filename.startswith("user:"):
        return ArtifactKey(app_name, user_id, None, filename)
    if session_id is None:
        raise InputValidationError(
            f"The artifact {filename!r} belongs to a session: give its session_id, or begin the name with 'user:'."
        )
    return ArtifactKey(app_name, user_id, session_id, filename)


def packed(
    part: types.Part, custom: Mapping[str, Any], key: ArtifactKey, session_id: str | None, now: float
) -> tuple[VersionInfo, bytes]:
    """Split a part into the description and content to store. Raises InputValidationError for an invalid part."""
    plain = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        custom = json.loads(json.dumps(custom))
    except (TypeError, ValueError) as error:
        raise InputValidationError("An artifact's custom_metadata must be JSON.") from error
    if part.inline_data is not None:
        if part.inline_data.data is None:
            raise InputValidationError("The artifact's inline_data has no data.")
        del plain["inlineData"]["data"]
        return VersionInfo(now, "inline", plain, part.inline_data.mime_type, custom), part.inline_data.data
    if part.text is not None:
        del plain["text"]
        return VersionInfo(now, "text", plain, "text/plain", custom), part.text.encode("utf-8", "surrogatepass")
    if part.file_data is not None and part.file_data.file_uri:
        mime_type = part.file_data.mime_type
        if artifact_util.is_artifact_ref(part):
            mime_type = None
            artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=key.app_name,
                user_id=key.user_id,
                session_id=session_id,
                remaining_depth=1,
            )
        return VersionInfo(now, "file", {}, mime_type, custom), json.dumps(plain).encode("ascii")
    raise InputValidationError("An artifact must have text, inline_data, or file_data with a file_uri.")


def part_of(info: VersionInfo, content: bytes) -> types.Part:
    """Restore a saved part from its description and content. Raises StoreCorrupt if they are invalid."""
    try:
        if info.kind == "file":
            return types.Part.model_validate(json.loads(content))
        part = types.Part.model_validate(info.part)
        if info.kind == "text":
            return part.model_copy(update={"text": content.decode("utf-8", "surrogatepass")})
        inline = part.inline_data or types.Blob()
        return part.model_copy(update={"inline_data": inline.model_copy(update={"data": content})})
    except ValueError as error:
        raise StoreCorrupt("An artifact cannot be read.") from error


def adk_version(key: ArtifactKey, number: int, info: VersionInfo) -> ArtifactVersion:
    """Return ADK's description of a version."""
    return ArtifactVersion(
        version=number,
        canonical_uri=artifact_util.get_artifact_uri(key.app_name, key.user_id, key.filename, number, key.session_id),
        custom_metadata=dict(info.custom),
        create_time=info.created,
        mime_type=info.mime_type,
    )
