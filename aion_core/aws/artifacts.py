"""ADK's artifacts on S3, an object a version; its content is the artifact's own, what is known of it the object's metadata."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from urllib.parse import quote, unquote
from uuid import uuid4

from google.adk.errors.input_validation_error import InputValidationError

from aion_core.aws import keys
from aion_core.aws.client import TRIES, Calls, Missing, Refused, let_others_write
from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock
from aion_core.ports.schema import ARTIFACTS, KEPT
from aion_core.sessions.artifacts import About, Place, StoredArtifacts

LONGEST_NAME, MOST_METADATA = 800, 1800
"""Bytes: an object's name has 1024 with what stands before, and its metadata 2 KB with their own names."""

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class S3Artifacts(StoredArtifacts):
    """ADK's artifact service in one bucket.

    Every method may raise StoreUnavailable. A session's artifact is kept as long as a task is after its last message,
    counted from when the version was saved; a user's until it is deleted.
    """

    def __init__(self, s3: Calls, clock: Clock, *, bucket: str) -> None:
        super().__init__(clock)
        self._s3, self._bucket = s3, bucket

    async def _versions(self, place: Place) -> Sequence[int]:
        folder = _folder(place)
        found = [key.removeprefix(folder) async for key in self._keys(folder)]
        return [int(number) for number in found if number.isascii() and number.isdecimal()]

    async def _put(self, place: Place, version: int, about: About, content: bytes) -> bool:
        by = str(uuid4())
        packed = base64.b64encode(json.dumps(asdict(about)).encode()).decode()
        if len(packed) > MOST_METADATA:
            raise InputValidationError("An artifact's custom_metadata may hold 1 KB of JSON, with its display name.")
        media_type = about.mime_type or ""
        for attempt in range(TRIES):
            try:
                await self._s3(
                    "put_object",
                    Bucket=self._bucket,
                    Key=_folder(place) + str(version),
                    Body=content,
                    ContentType=media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
                    Metadata={"about": packed, "by": by},
                    IfNoneMatch="*",
                )
            except Refused as refused:
                if refused.conflict:
                    await let_others_write(attempt)
                    continue
                # An earlier try of this very save may have been heard after all.
                there = await self._metadata(place, version)
                return there is not None and there["by"] == by
            else:
                return True
        raise StoreUnavailable("The artifact is being saved by too many at once.")

    async def _get(self, place: Place, version: int) -> tuple[About, bytes] | None:
        # A version never changes: the two answers are of the same.
        about = await self._about(place, version)
        if about is None:
            return None
        try:
            key = _folder(place) + str(version)
            return about, await self._s3.read("get_object", "Body", Bucket=self._bucket, Key=key)
        except Missing:
            return None

    async def _about(self, place: Place, version: int) -> About | None:
        there = await self._metadata(place, version)
        return About(**json.loads(base64.b64decode(there["about"]))) if there is not None else None

    async def _metadata(self, place: Place, version: int) -> dict[str, str] | None:
        try:
            found = await self._s3("head_object", Bucket=self._bucket, Key=_folder(place) + str(version))
        except Missing:
            return None
        metadata: dict[str, str] = found["Metadata"]
        return metadata

    async def _names(self, app_name: str, user_id: str, session_id: str | None) -> Sequence[str]:
        folder = _folder_of_all(app_name, user_id, session_id)
        names = {key.removeprefix(folder).partition("/")[0] async for key in self._keys(folder)}
        return [unquote(name, errors="surrogatepass") for name in names]

    async def _remove(self, place: Place) -> None:
        found = [key async for key in self._keys(_folder(place))]
        await asyncio.gather(*(self._s3("delete_object", Bucket=self._bucket, Key=key) for key in found))

    async def _keys(self, folder: str) -> AsyncIterator[str]:
        start: dict[str, str] = {}
        while True:
            page = await self._s3("list_objects_v2", Bucket=self._bucket, Prefix=folder, **start)
            for each in page.get("Contents", []):
                yield each["Key"]
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}


def _folder(place: Place) -> str:
    name = quote(place.filename, safe="", errors="surrogatepass").replace(".", "%2E")
    if len(name) > LONGEST_NAME:
        raise InputValidationError("The artifact's file name is too long.")
    return f"{_folder_of_all(*place[:3])}{name}/"


def _folder_of_all(app_name: str, user_id: str, session_id: str | None) -> str:
    if session_id is None:
        return f"{KEPT}/{ARTIFACTS}/{keys.user_state_partition(user_id, app_name).removeprefix('USER#')}/"
    return f"{ARTIFACTS}/{keys.session_thread(user_id, app_name, session_id)}/"
