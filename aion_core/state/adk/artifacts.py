"""ADK's artifact service over blobs.

Each version of an artifact is a blob. It has the content, and a `VersionInfo` as metadata.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from msgspec.structs import asdict

from aion_core.clock import Clock
from aion_core.errors import StoreUnavailable
from aion_core.state.adk.artifact_versions import (
    MOST_METADATA,
    ArtifactKey,
    VersionInfo,
    adk_version,
    artifact_folder,
    artifact_key,
    artifacts_folder,
    packed,
    part_of,
)
from aion_core.table.blobs import Blobs
from aion_core.table.retries import MAX_ATTEMPTS, jitter

SAVES = 10
"""Number of attempts of a save to get a version number, because a concurrent save may take the number first."""


class BlobArtifacts(BaseArtifactService):
    """ADK's artifact service for one turn.

    A file name with the prefix `user:` belongs to the user in every session. Version numbers begin with 0, and no two
    saves share one; after a delete they begin with 0 again, unless another process saves the artifact meanwhile. On S3,
    a session's artifact expires one retention after its save, and a user's artifact never. Every method may raise
    StoreUnavailable, and a save or delete LeaseLost.
    """

    def __init__(self, blobs: Blobs, clock: Clock, check_lease: Callable[[], None] = lambda: None) -> None:
        """`check_lease` raises LeaseLost if another process may have the turn. Blobs have no fence of their own."""
        self._blobs, self._clock, self._check_lease = blobs, clock, check_lease

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
        key = artifact_key(app_name, user_id, filename, session_id)
        info, content = packed(
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
        key = artifact_key(app_name, user_id, filename, session_id)
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
            key, version = artifact_key(to.app_name, to.user_id, to.filename, to.session_id), to.version
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
        """Delete all versions of an artifact. A missing artifact is no error.

        A version that another process saves meanwhile may stay, as the first of a new artifact.
        """
        key = artifact_key(app_name, user_id, filename, session_id)
        found = sorted(await self._versions(key))
        # The newest one last: without it, readers would take an older version for the artifact.
        for versions in (found[:-1], found[-1:]):
            self._check_lease()
            await asyncio.gather(*(self._blobs.delete(artifact_folder(key) + str(number)) for number in versions))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of an artifact's versions, oldest first."""
        return sorted(await self._versions(artifact_key(app_name, user_id, filename, session_id)))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return ADK's descriptions of an artifact's versions, oldest first."""
        key = artifact_key(app_name, user_id, filename, session_id)
        found = [(number, await self._info(key, number)) for number in sorted(await self._versions(key))]
        return [adk_version(key, number, info) for number, info in found if info is not None]

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
        key = artifact_key(app_name, user_id, filename, session_id)
        number, info = await self._found(key, version)
        return adk_version(key, number, info) if info is not None else None

    async def _part(self, key: ArtifactKey, version: int | None) -> types.Part | None:
        # Read the description and the content in two calls. They match, because a stored version never changes.
        number, info = await self._found(key, version)
        content = await self._blobs.get(artifact_folder(key) + str(number)) if info is not None else None
        if info is None or content is None:
            return None
        part = part_of(info, content)
        # Return None for a tombstone, because ADK has rewound the session and the artifact no longer exists.
        return None if artifact_util._is_rewind_tombstone(part) else part

    async def _versions(self, key: ArtifactKey) -> Sequence[int]:
        folder = artifact_folder(key)
        found = [name.removeprefix(folder) for name in await self._blobs.names(folder)]
        return [int(number) for number in found if number.isascii() and number.isdecimal()]

    async def _put(self, key: ArtifactKey, version: int, info: VersionInfo, content: bytes) -> bool:
        """Store a version of the artifact and return True, or return False if its number is used already."""
        packed = base64.b64encode(json.dumps(asdict(info)).encode()).decode()
        if len(packed) > MOST_METADATA:
            raise InputValidationError("An artifact's custom_metadata and display name may have 1 KB of JSON together.")
        name, metadata = artifact_folder(key) + str(version), {"about": packed, "by": str(uuid4())}
        for attempt in range(MAX_ATTEMPTS):
            self._check_lease()
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
        metadata = await self._blobs.metadata(artifact_folder(key) + str(version))
        return VersionInfo(**json.loads(base64.b64decode(metadata["about"]))) if metadata is not None else None

    async def _names(self, app_name: str, user_id: str, session_id: str | None) -> Sequence[str]:
        folder = artifacts_folder(app_name, user_id, session_id)
        names = {name.removeprefix(folder).partition("/")[0] for name in await self._blobs.names(folder)}
        return [unquote(name, errors="surrogatepass") for name in names]
