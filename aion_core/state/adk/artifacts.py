"""ADK's artifact service over blobs.

Each version of an artifact is a blob. It has the content, and a `VersionInfo` as metadata.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from msgspec import Struct
from msgspec.structs import asdict

from aion_core.clock import Clock
from aion_core.errors import StoreCorrupt, StoreUnavailable
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.retries import MAX_ATTEMPTS, jitter
from aion_core.table.schema import ARTIFACTS, PERMANENT_FOLDER

SAVES = 10
"""Number of attempts of a save to get a version number, because a concurrent save may take the number first."""

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


class BlobArtifacts(BaseArtifactService):
    """ADK's artifact service for all turns.

    A file name with the prefix `user:` belongs to the user in every session. Version numbers begin with 0, and no two
    saves share one; after a delete they begin with 0 again. On S3, a session's artifact expires one retention after its
    save, and a user's artifact never. Every method may raise StoreUnavailable.
    """

    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock

    # ── ADK's methods ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Store a new version of the artifact and return its number. Raises InputValidationError for an empty part."""
        key = _key(app_name, user_id, filename, session_id)
        info, content = _stored(
            ensure_part(artifact), custom_metadata or {}, key, session_id, self._clock.now().timestamp()
        )
        version = max(await self._versions(key), default=-1) + 1
        for number in range(version, version + SAVES):
            if await self._put(key, number, info, content):
                return number
        raise StoreUnavailable("Too many saves of this artifact run at once.")

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version of the artifact (by default the newest), or None. Follow references to other artifacts."""
        key = _key(app_name, user_id, filename, session_id)
        # Follow one reference more than ADK allows: at that one, `resolve_artifact_reference` raises ADK's own error.
        for depth in range(artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH, -1, -1):
            part = await self._part(key, version)
            uri = part.file_data.file_uri if part is not None and part.file_data is not None else None
            if part is None or uri is None or not artifact_util.is_artifact_ref(part):
                return part
            to = artifact_util.resolve_artifact_reference(
                file_uri=uri,
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=depth,
            )
            key, version = _key(to.app_name, to.user_id, to.filename, to.session_id), to.version
        raise AssertionError("ADK limits the references")

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Return the file names of the user's artifacts and, if a session is given, of the session's artifacts."""
        names = await self._names(app_name, user_id, None)
        if session_id is not None:
            names = [*names, *await self._names(app_name, user_id, session_id)]
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of an artifact. A missing artifact is no error."""
        found = await self._blobs.names(_folder(_key(app_name, user_id, filename, session_id)))
        await asyncio.gather(*map(self._blobs.delete, found))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of an artifact's versions, oldest first."""
        return sorted(await self._versions(_key(app_name, user_id, filename, session_id)))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return ADK's descriptions of an artifact's versions, oldest first."""
        key = _key(app_name, user_id, filename, session_id)
        found = [(number, await self._info(key, number)) for number in sorted(await self._versions(key))]
        return [_version(key, number, info) for number, info in found if info is not None]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return ADK's description of an artifact's version (by default the newest), or None if it is missing."""
        key = _key(app_name, user_id, filename, session_id)
        number, info = await self._found(key, version)
        return _version(key, number, info) if info is not None else None

    async def _part(self, key: ArtifactKey, version: int | None) -> types.Part | None:
        # Read the description and the content in two calls. They match, because a stored version never changes.
        number, info = await self._found(key, version)
        content = await self._blobs.get(_folder(key) + str(number)) if info is not None else None
        if info is None or content is None:
            return None
        part = _part_of(info, content)
        # Return None for a tombstone, because ADK has rewound the session and the artifact no longer exists.
        return None if artifact_util._is_rewind_tombstone(part) else part

    # ── Blobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _versions(self, key: ArtifactKey) -> Sequence[int]:
        folder = _folder(key)
        found = [name.removeprefix(folder) for name in await self._blobs.names(folder)]
        return [int(number) for number in found if number.isascii() and number.isdecimal()]

    async def _put(self, key: ArtifactKey, version: int, info: VersionInfo, content: bytes) -> bool:
        """Store a version of the artifact and return True, or return False if its number is used already."""
        packed = base64.b64encode(json.dumps(asdict(info)).encode()).decode()
        if len(packed) > MOST_METADATA:
            raise InputValidationError("An artifact's custom_metadata and display name may have 1 KB of JSON together.")
        name, metadata = _folder(key) + str(version), {"about": packed, "by": str(uuid4())}
        for attempt in range(MAX_ATTEMPTS):
            try:
                if await self._blobs.put_new(name, content, metadata, media_type=info.mime_type or ""):
                    return True
                break
            except StoreUnavailable:
                if attempt + 1 == MAX_ATTEMPTS:
                    raise
                await jitter(attempt)
        # Return True also if an earlier attempt of this save has stored the version and its response was lost. The
        # random value `by` identifies the save.
        found = await self._blobs.metadata(name)
        return found is not None and found["by"] == metadata["by"]

    async def _found(self, key: ArtifactKey, version: int | None) -> tuple[int, VersionInfo | None]:
        """Return the number and description of a version, by default the newest. The description is None if missing."""
        number = version if version is not None else max(await self._versions(key), default=-1)
        return number, await self._info(key, number) if number >= 0 else None

    async def _info(self, key: ArtifactKey, version: int) -> VersionInfo | None:
        metadata = await self._blobs.metadata(_folder(key) + str(version))
        return VersionInfo(**json.loads(base64.b64decode(metadata["about"]))) if metadata is not None else None

    async def _names(self, app_name: str, user_id: str, session_id: str | None) -> Sequence[str]:
        folder = _folder_of_all(app_name, user_id, session_id)
        names = {name.removeprefix(folder).partition("/")[0] for name in await self._blobs.names(folder)}
        return [unquote(name, errors="surrogatepass") for name in names]


def _folder(key: ArtifactKey) -> str:
    name = quote(key.filename, safe="", errors="surrogatepass").replace(".", "%2E")
    if len(name) > LONGEST_NAME:
        raise InputValidationError("The artifact's file name is too long.")
    return f"{_folder_of_all(*key[:3])}{name}/"


def _folder_of_all(app_name: str, user_id: str, session_id: str | None) -> str:
    if session_id is None:
        return f"{PERMANENT_FOLDER}/{ARTIFACTS}/{keys.user_state_partition(user_id, app_name).removeprefix('USER#')}/"
    return f"{ARTIFACTS}/{keys.session_thread(user_id, app_name, session_id)}/"


def _key(app_name: str, user_id: str, filename: str, session_id: str | None) -> ArtifactKey:
    if not filename:
        raise InputValidationError("An artifact needs a file name.")
    if filename.startswith("user:"):
        return ArtifactKey(app_name, user_id, None, filename)
    if session_id is None:
        raise InputValidationError(
            f"The artifact {filename!r} belongs to a session: give its session_id, or begin the name with 'user:'."
        )
    return ArtifactKey(app_name, user_id, session_id, filename)


def _stored(
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


def _part_of(info: VersionInfo, content: bytes) -> types.Part:
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


def _version(key: ArtifactKey, number: int, info: VersionInfo) -> ArtifactVersion:
    return ArtifactVersion(
        version=number,
        canonical_uri=artifact_util.get_artifact_uri(key.app_name, key.user_id, key.filename, number, key.session_id),
        custom_metadata=dict(info.custom),
        create_time=info.created,
        mime_type=info.mime_type,
    )
