"""ADK's artifact service over objects that somebody keeps: names and scopes, versions, references, what is stored of a part."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from aion_core.errors import StoreCorrupt, StoreUnavailable
from aion_core.ports import Clock

SAVES = 10
"""How often a save takes the next number, where others save under the same name at the same time."""


class Place(NamedTuple):
    """Where an artifact lies: in a session, or with its user where there is no session_id."""

    app_name: str
    user_id: str
    session_id: str | None
    filename: str


@dataclass(frozen=True, slots=True)
class About:
    """What is kept beside a version's content."""

    created: float
    kind: str
    """`inline` and `text`: the content is the part's own; `file`: it is the part as JSON, which points elsewhere."""
    part: Mapping[str, Any]
    """The part as JSON without its content."""
    mime_type: str | None
    custom: Mapping[str, Any]


class StoredArtifacts(BaseArtifactService):
    """ADK's artifact service.

    What ADK leaves open: a file name that begins with `user:` is the user's in whatever session; versions count from 0
    and no two saves get the same; an artifact that is deleted and saved again begins at 0.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    # ── What ADK calls ────────────────────────────────────────────────────────────────────────────────────────────────

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
        """Keep another version and return its number; raises InputValidationError for a part that holds nothing."""
        place = _place(app_name, user_id, filename, session_id)
        about, content = _kept(ensure_part(artifact), custom_metadata or {}, place, session_id, self._now())
        version = max(await self._versions(place), default=-1) + 1
        for number in range(version, version + SAVES):
            if await self._put(place, number, about, content):
                return number
        raise StoreUnavailable("The artifact is being saved by too many at once.")

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return the version, or the newest; of a reference, what it refers to; None where there is none."""
        place = _place(app_name, user_id, filename, session_id)
        # One more than references may be followed: the last finds that none is left.
        for depth in range(artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH, -1, -1):
            part = await self._part(place, version)
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
            place, version = _place(to.app_name, to.user_id, to.filename, to.session_id), to.version
        raise AssertionError("ADK counts the references that are followed")

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Return the names of the user's artifacts, and of the session's where one is given."""
        names = await self._names(app_name, user_id, None)
        if session_id is not None:
            names = [*names, *await self._names(app_name, user_id, session_id)]
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions, there or not."""
        await self._remove(_place(app_name, user_id, filename, session_id))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of the versions, the oldest first."""
        return sorted(await self._versions(_place(app_name, user_id, filename, session_id)))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return what is known of each version, the oldest first."""
        place = _place(app_name, user_id, filename, session_id)
        found = [(number, await self._about(place, number)) for number in sorted(await self._versions(place))]
        return [_version(place, number, about) for number, about in found if about is not None]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return what is known of the version, or of the newest; None where there is none."""
        place = _place(app_name, user_id, filename, session_id)
        number = version if version is not None else max(await self._versions(place), default=-1)
        about = await self._about(place, number) if number >= 0 else None
        return _version(place, number, about) if about is not None else None

    async def _part(self, place: Place, version: int | None) -> types.Part | None:
        number = version if version is not None else max(await self._versions(place), default=-1)
        found = await self._get(place, number) if number >= 0 else None
        if found is None:
            return None
        part = _part_of(*found)
        # A rewound session keeps its later versions, and says by this one that the artifact is not there.
        return None if artifact_util._is_rewind_tombstone(part) else part

    def _now(self) -> float:
        return self._clock.now().timestamp()

    # ── What a store does ─────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _versions(self, place: Place) -> Sequence[int]:
        """Return the numbers of the versions."""

    @abstractmethod
    async def _put(self, place: Place, version: int, about: About, content: bytes) -> bool:
        """Keep the version if there is none of this number; tell whether it is kept."""

    @abstractmethod
    async def _get(self, place: Place, version: int) -> tuple[About, bytes] | None:
        """Return the version."""

    @abstractmethod
    async def _about(self, place: Place, version: int) -> About | None:
        """Return what is kept beside the version's content."""

    @abstractmethod
    async def _names(self, app_name: str, user_id: str, session_id: str | None) -> Sequence[str]:
        """Return the file names of the session's artifacts, of the user's for None."""

    @abstractmethod
    async def _remove(self, place: Place) -> None:
        """Delete all versions, there or not."""


def _place(app_name: str, user_id: str, filename: str, session_id: str | None) -> Place:
    if not filename:
        raise InputValidationError("An artifact needs a file name.")
    if filename.startswith("user:"):
        return Place(app_name, user_id, None, filename)
    if session_id is None:
        raise InputValidationError(
            f"The artifact {filename!r} belongs to a session: give its session_id, or begin the name with 'user:'."
        )
    return Place(app_name, user_id, session_id, filename)


def _kept(
    part: types.Part, custom: Mapping[str, Any], place: Place, session_id: str | None, now: float
) -> tuple[About, bytes]:
    """Return what is stored of the part."""
    plain = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        custom = json.loads(json.dumps(custom))
    except (TypeError, ValueError) as error:
        raise InputValidationError("An artifact's custom_metadata has to be JSON.") from error
    if part.inline_data is not None:
        if part.inline_data.data is None:
            raise InputValidationError("The artifact's inline_data holds no data.")
        del plain["inlineData"]["data"]
        return About(now, "inline", plain, part.inline_data.mime_type, custom), part.inline_data.data
    if part.text is not None:
        del plain["text"]
        return About(now, "text", plain, "text/plain", custom), part.text.encode("utf-8", "surrogatepass")
    if part.file_data is not None and part.file_data.file_uri:
        mime_type = part.file_data.mime_type
        if artifact_util.is_artifact_ref(part):
            mime_type = None
            artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=place.app_name,
                user_id=place.user_id,
                session_id=session_id,
                remaining_depth=1,
            )
        return About(now, "file", {}, mime_type, custom), json.dumps(plain).encode("ascii")
    raise InputValidationError("An artifact has to hold text, inline_data, or file_data with a file_uri.")


def _part_of(about: About, content: bytes) -> types.Part:
    """Return the part that was saved; raises StoreCorrupt where it cannot be read."""
    try:
        if about.kind == "file":
            return types.Part.model_validate(json.loads(content))
        part = types.Part.model_validate(about.part)
        if about.kind == "text":
            return part.model_copy(update={"text": content.decode("utf-8", "surrogatepass")})
        inline = part.inline_data or types.Blob()
        return part.model_copy(update={"inline_data": inline.model_copy(update={"data": content})})
    except ValueError as error:
        raise StoreCorrupt("An artifact cannot be read.") from error


def _version(place: Place, number: int, about: About) -> ArtifactVersion:
    return ArtifactVersion(
        version=number,
        canonical_uri=artifact_util.get_artifact_uri(
            place.app_name, place.user_id, place.filename, number, place.session_id
        ),
        custom_metadata=dict(about.custom),
        create_time=about.created,
        mime_type=about.mime_type,
    )
